#include "recipe/axes.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/text.h"

namespace autotrain {
namespace {

constexpr int64_t kLargestBatch = 1 << 24;
constexpr int64_t kLargestAutomatic = 4096;

std::optional<int64_t> parse_batch(std::string_view text) {
  int64_t size = 0;
  const bool good = parse_integer(trim(text), size) && size >= 1 && size <= kLargestBatch;
  return good ? std::optional(size) : std::nullopt;
}

std::vector<int64_t> doubled(int64_t first, int64_t last) {
  std::vector<int64_t> sizes;
  for (int64_t size = first; size < last; size *= 2) sizes.push_back(size);
  sizes.push_back(last);
  return sizes;
}

// From "65TFLOP/s": a number, a prefix of the SI and the unit.
std::optional<double> parse_rate(std::string_view text, std::string_view unit) {
  text = trim(text);
  if (!text.ends_with(unit)) return std::nullopt;
  text = trim(text.substr(0, text.size() - unit.size()));
  constexpr std::string_view kPrefixes = "kMGTP";
  const size_t prefix = text.empty() ? std::string_view::npos : kPrefixes.find(text.back());
  double factor = 1;
  if (prefix != std::string_view::npos) {
    factor = std::pow(1000.0, static_cast<double>(prefix + 1));
    text.remove_suffix(1);
  }
  double number = 0;
  if (text.find_first_not_of("0123456789. ") != std::string_view::npos) return std::nullopt;
  if (!parse_real(trim(text), number) || number <= 0 || !std::isfinite(number * factor)) return std::nullopt;
  return number * factor;
}

// Where brackets of either kind are closed; nothing when they do not match.
std::optional<std::vector<std::string>> split_outside_brackets(std::string_view text) {
  std::vector<std::string> parts(1);
  std::string open;
  for (const char c : text) {
    if (c == ',' && open.empty()) {
      parts.emplace_back();
      continue;
    }
    parts.back() += c;
    if (c == '[' || c == '{') open += c;
    if (c != ']' && c != '}') continue;
    if (open.empty() || open.back() != (c == ']' ? '[' : '{')) return std::nullopt;
    open.pop_back();
  }
  return open.empty() ? std::optional(std::move(parts)) : std::nullopt;
}

}  // namespace

std::vector<std::string> Axis::keys() const {
  return split(key, ',');
}

std::optional<BatchAxis> parse_batches(std::string_view text) {
  text = trim(text);
  if (text == "auto") return BatchAxis{doubled(1, kLargestAutomatic), true};
  if (const size_t dots = text.find(".."); dots != std::string_view::npos) {
    const auto first = parse_batch(text.substr(0, dots)), last = parse_batch(text.substr(dots + 2));
    if (!first || !last || *first > *last) return std::nullopt;
    return BatchAxis{doubled(*first, *last)};
  }
  std::set<int64_t> sizes;
  for (const std::string& part : split(text, ',')) {
    const auto size = parse_batch(part);
    if (!size) return std::nullopt;
    sizes.insert(*size);
  }
  return BatchAxis{{sizes.begin(), sizes.end()}};
}

std::optional<Axis> parse_axis(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos) return std::nullopt;
  std::vector<std::string> keys;
  for (const std::string& key : split(text.substr(0, equals), ',')) {
    if (trim(key).empty()) return std::nullopt;
    keys.emplace_back(trim(key));
  }
  const auto values = split_outside_brackets(text.substr(equals + 1));
  if (!values) return std::nullopt;
  Axis axis{join(keys, ",")};
  for (const std::string& part : *values) {
    std::string value(trim(part));
    if (value.empty()) return std::nullopt;
    if (std::ranges::count(axis.values, value) == 0) axis.values.push_back(std::move(value));
  }
  return axis;
}

std::optional<DeviceFigures> parse_device_figures(std::string_view text) {
  const std::vector<std::string> parts = split(text, ',');
  if (parts.size() != 2) return std::nullopt;
  const auto flops = parse_rate(parts[0], "FLOP/s"), bytes = parse_rate(parts[1], "B/s");
  if (!flops || !bytes) return std::nullopt;
  return DeviceFigures{*flops, *bytes};
}

}  // namespace autotrain
