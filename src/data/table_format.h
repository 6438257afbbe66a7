#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace autotrain {

/// What stands before the decimals of a number.
enum class DecimalMark { kPoint, kComma };

/// How a table is written.
struct TableFormat {
  char separator = ',';
  DecimalMark decimal = DecimalMark::kPoint;
  bool header = true;  ///< the first record names the columns
};

/// What is asked for; what is not is found in the file.
struct TableFormatOptions {
  std::optional<char> separator = {};
  std::optional<DecimalMark> decimal = {};
  bool header = true;
  char likely_separator = ',';           ///< where it is not asked for, and the file may be read by several
  std::optional<TableFormat> like = {};  ///< of the training file, for what this file does not decide
};

/// Finds the separator by the first records, of which all have as many fields, and the decimal mark by the
/// numbers that only one of them explains. @param file of messages.
/// @throws Error(kBadData) for a file that is no text of bytes (UTF-16), whose lines end in CR alone, or
/// whose separator may be one of several.
TableFormat find_table_format(std::string_view content, const std::string& file,
                              const TableFormatOptions& options);

/// The number that a field is, blanks around it left out: nothing if it is none that float32 holds.
std::optional<double> field_number(std::string_view text, DecimalMark decimal = DecimalMark::kPoint);

/// Whether a field that is no number may have been meant as one: "12%", "1,234.5", "~1100", "€ 5", "inf".
bool looks_like_number(std::string_view text);

/// Whether a number is written with zeros that its value does not keep, as codes are: "007", "01.5".
bool has_leading_zeros(std::string_view text);

}  // namespace autotrain
