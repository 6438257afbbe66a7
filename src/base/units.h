#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace autotrain {

constexpr int64_t kKiB = 1024;
constexpr int64_t kMiB = 1024 * kKiB;
constexpr int64_t kGiB = 1024 * kMiB;

/// "512 B", "1.50 GiB": binary units, three significant digits. `-1` is "unlimited".
std::string format_bytes(int64_t bytes);

/// "1,234,567".
std::string format_count(int64_t count);

/// "0.8 s", "42 s", "3 min 20 s", "2 h 05 min", "4 d 3 h".
std::string format_seconds(double seconds);

/// "87.4 %".
std::string format_percent(double fraction, int digits = 1);

/// "1.23k", "45.6M", "200G": three significant digits, for rates on a narrow line.
std::string format_rate(double per_second);

/// Bytes from "2GiB", "1.5 GiB", "256 MiB", "1048576", "2GB" (decimal), "64k" (binary KiB);
/// nothing when it is not a positive amount or does not fit in 63 bits.
std::optional<int64_t> parse_bytes(std::string_view text);

/// A fraction from "50%" or "12.5 %"; nothing when it does not end in a percent sign.
std::optional<double> parse_percent(std::string_view text);

/// ⌈a ÷ b⌉ for a ≥ 0, b > 0, without overflow.
constexpr int64_t ceil_div(int64_t a, int64_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

/// The multiple of `step` that is at least `value`. Precondition: the result fits.
constexpr int64_t round_up(int64_t value, int64_t step) {
  return ceil_div(value, step) * step;
}

}  // namespace autotrain
