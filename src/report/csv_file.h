#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/files.h"

namespace autotrain {

/// A cell of a CSV file: whole numbers without a point, others in the digits that read back equal; empty
/// when not finite.
std::string csv_number(double value);

/// A value of JSON as a cell: words without quotation marks, flags as true and false; empty when it is null,
/// or a number that is not finite.
std::string csv_cell(const nlohmann::ordered_json& value);

/// Cells as a line of a CSV file by RFC 4180, in UTF-8: quoted where they hold a comma, a quote or a line
/// end. Text that a spreadsheet would compute ("=1+1", "+", "@x", "-x"; numbers are none) gets an apostrophe
/// before it.
std::string csv_line(const std::vector<std::string>& cells);

/// Writes a CSV file line by line. Nothing stands under `path` until `finish` put the whole there. It is not
/// synced: what it is drawn from can be drawn anew.
class CsvFile {
 public:
  /// @throws Error(kInputOutput); so do all others.
  CsvFile(std::filesystem::path path, const std::vector<std::string>& header);
  ~CsvFile();
  CsvFile(const CsvFile&) = delete;
  CsvFile& operator=(const CsvFile&) = delete;

  void add_row(const std::vector<std::string>& cells);
  void finish();

 private:
  const std::filesystem::path path_, unfinished_;
  OutputFile file_;
  std::string buffer_;
};

}  // namespace autotrain
