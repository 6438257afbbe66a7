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

/// The most samples or updates that are counted: sums of two still fit in 64 bits.
constexpr int64_t kMostCounted = int64_t{1} << 62;

/// a × b for a, b ≥ 0, but no more than kMostCounted.
constexpr int64_t counted_product(int64_t a, int64_t b) {
  return b > 0 && a > kMostCounted / b ? kMostCounted : a * b;
}

/// The whole part of a product or quotient of numbers that were written in decimals, which binary ones may
/// miss by their rounding: 57,500 of 1.15 × 50,000. No more than kMostCounted. Precondition: value ≥ 0.
int64_t whole_part(double value);

/// The whole number next to such a value; the larger one of two that are as near.
int64_t nearest_whole(double value);

/// The whole samples of so many passes over a data set.
int64_t samples_of_epochs(double epochs, int64_t dataset_size);

/// The multiple of `step` that is at least `value`. Precondition: the result fits.
constexpr int64_t round_up(int64_t value, int64_t step) {
  return ceil_div(value, step) * step;
}

}  // namespace autotrain
