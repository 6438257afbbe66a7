#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "data/csv.h"

namespace autotrain {

/// A CSV file whose columns have names and whose rows all have as many fields.
class TableFile {
 public:
  /// @param header whether the first record names the columns; else they are called "1", "2", …
  /// @throws Error(kMissingFile, kBadData) when there is no record or two columns have one name.
  TableFile(const std::filesystem::path& path, char separator, bool header);

  std::string path() const { return file_.path().string(); }
  const std::vector<std::string>& columns() const { return columns_; }

  /// Number of the column called `name`; failing that, `name` is its number, from 1.
  /// @throws Error(kBadRecipe) naming `key` and the nearest column when there is none.
  size_t column(const std::string& name, const std::string& key) const;

  using Row = std::vector<CsvField>;

  /// Calls `visit(number, row)` for every row, in order, with `columns()` fields each; numbers start at 0.
  /// @throws Error(kBadData) with line and column.
  void for_each_row(const std::function<void(int64_t number, const Row& row)>& visit) const;

  /// "prices.csv:12:7: rooms": where the field of a row is.
  std::string place(const Row& row, size_t column) const;

 private:
  CsvReader reader() const;

  MappedFile file_;
  char separator_;
  bool header_;
  std::vector<std::string> columns_;
};

}  // namespace autotrain
