#include "base/units.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/text.h"

namespace autotrain {
namespace {

struct ByteUnit {
  std::string_view name;  // lower case
  double bytes;
};

constexpr std::array kByteUnits = {
    ByteUnit{"", 1},         ByteUnit{"b", 1},        ByteUnit{"k", 0x1p10},   ByteUnit{"kib", 0x1p10},
    ByteUnit{"kb", 1e3},     ByteUnit{"m", 0x1p20},   ByteUnit{"mib", 0x1p20}, ByteUnit{"mb", 1e6},
    ByteUnit{"g", 0x1p30},   ByteUnit{"gib", 0x1p30}, ByteUnit{"gb", 1e9},     ByteUnit{"t", 0x1p40},
    ByteUnit{"tib", 0x1p40}, ByteUnit{"tb", 1e12},
};

// Three significant digits for a value from 1 up to a few thousand.
std::string three_digits(double value) {
  return fixed(value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0);
}

std::string two_wide(int64_t value) {
  return (value < 10 ? "0" : "") + std::to_string(value);
}

}  // namespace

std::string format_bytes(int64_t bytes) {
  if (bytes == -1) return "unlimited";
  const double size = std::abs(static_cast<double>(bytes));
  const char* const sign = bytes < 0 ? "-" : "";
  if (size < 1024) return cat(sign, std::abs(bytes), " B");
  constexpr std::array<const char*, 5> kNames = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  size_t i = 0;
  double unit = 1024;
  while (i + 1 < kNames.size() && size / unit >= 1023.5) unit *= 1024, ++i;
  return cat(sign, three_digits(size / unit), " ", kNames[i]);
}

std::string format_count(int64_t count) {
  std::string digits = std::to_string(count);
  const size_t first = count < 0 ? 1 : 0;
  for (size_t at = digits.size(); at > first + 3;) digits.insert(at -= 3, ",");
  return digits;
}

std::string format_seconds(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  if (seconds < 1) return fixed(seconds, seconds < 0.0995 ? 3 : 2) + " s";
  if (seconds < 9.95) return fixed(seconds, 1) + " s";
  const auto whole = static_cast<int64_t>(std::min(seconds + 0.5, 1e15));
  if (whole < 60) return cat(whole, " s");
  if (whole < 3600) return cat(whole / 60, " min ", two_wide(whole % 60), " s");
  if (whole < 86400) return cat(whole / 3600, " h ", two_wide(whole % 3600 / 60), " min");
  return cat(whole / 86400, " d ", whole % 86400 / 3600, " h");
}

std::string format_percent(double fraction, int digits) {
  return fixed(fraction * 100, digits) + " %";
}

std::string format_rate(double per_second) {
  if (!std::isfinite(per_second)) return "?";
  if (per_second < 1000) return per_second < 1 ? fixed(per_second, 3) : three_digits(per_second);
  if (per_second < 999.5e3) return three_digits(per_second / 1e3) + "k";
  if (per_second < 999.5e6) return three_digits(per_second / 1e6) + "M";
  if (per_second < 999.5e9) return three_digits(per_second / 1e9) + "G";
  return three_digits(per_second / 1e12) + "T";
}

int64_t whole_part(double value) {
  constexpr double kRounding = 0x1p-48;  // relative, of a few operations in double
  const double above = std::ceil(value);
  const double whole = above - value <= above * kRounding ? above : std::floor(value);
  return static_cast<int64_t>(std::min(whole, static_cast<double>(kMostCounted)));
}

int64_t nearest_whole(double value) {
  return whole_part(value + 0.5);
}

int64_t samples_of_epochs(double epochs, int64_t dataset_size) {
  return whole_part(epochs * static_cast<double>(dataset_size));
}

std::optional<int64_t> parse_bytes(std::string_view text) {
  text = trim(text);
  const size_t digits = text.find_first_not_of("0123456789.");
  const std::string_view number = text.substr(0, digits);
  const std::string unit = digits == std::string_view::npos ? "" : lower(trim(text.substr(digits)));
  double value = 0;
  if (!parse_real(number, value)) return std::nullopt;
  for (const ByteUnit& known : kByteUnits) {
    if (unit != known.name) continue;
    if (value < 0) return std::nullopt;
    const int64_t bytes = whole_part(value * known.bytes);
    return bytes >= 1 && bytes < kMostCounted ? std::optional(bytes) : std::nullopt;
  }
  return std::nullopt;
}

std::optional<double> parse_percent(std::string_view text) {
  text = trim(text);
  if (text.empty() || text.back() != '%') return std::nullopt;
  double value = 0;
  if (!parse_real(trim(text.substr(0, text.size() - 1)), value)) return std::nullopt;
  return value / 100;
}

}  // namespace autotrain
