#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "data/csv.h"
#include "data/table_format.h"

namespace autotrain {

/// A CSV file whose columns have names and whose rows all have as many fields.
class TableFile {
 public:
  /// Columns without a name, and all where there is no header, are called "1", "2", … by their places; the
  /// former "unnamed 1" where another one has that name.
  /// @throws Error(kMissingFile, kBadData) when there is no record, two columns have one name, or the file is
  /// written in no way that is known.
  TableFile(const std::filesystem::path& path, const TableFormatOptions& options);

  std::string path() const { return file_.path().string(); }
  const TableFormat& format() const { return format_; }

  /// Whether the header gives it no name.
  bool is_unnamed(size_t column) const { return unnamed_[column]; }

  const std::vector<std::string>& columns() const { return columns_; }

  /// Number of the column called `name`; failing that, `name` is its number, from 1.
  /// @throws Error(kBadRecipe) naming `key` and the nearest column when there is none.
  size_t column(const std::string& name, const std::string& key) const;

  /// Number of the column that another file's is, by its name alone. @param unnamed whether it has none
  /// there.
  /// @throws Error(kBadRecipe) as `column` does.
  size_t same_column(const std::string& name, bool unnamed, const std::string& key) const;

  using Row = std::vector<CsvField>;

  /// Calls `visit(number, row)` for every row, in order, with `columns()` fields each; numbers start at 0.
  /// @throws Error(kBadData) with line and column, also where the header stands again or a quoted field holds
  /// rows.
  void for_each_row(const std::function<void(int64_t number, const Row& row)>& visit) const;

  /// "prices.csv:12:7: rooms": where the field of a row is.
  std::string place(const Row& row, size_t column) const;

 private:
  [[noreturn]] void fail_column(const std::string& name, const std::string& key) const;
  void check_row(const Row& row) const;
  bool is_header(const Row& row) const;
  bool holds_rows(const Row& row, size_t column) const;
  std::string_view content() const;
  CsvReader reader() const { return {content(), path(), format_.separator}; }

  MappedFile file_;
  TableFormat format_;
  std::vector<std::string> columns_;
  std::vector<bool> unnamed_;
};

}  // namespace autotrain
