#include "data/table_file.h"

#include <algorithm>
#include <set>

#include "autotrain/error.h"
#include "base/text.h"

namespace autotrain {
namespace {

// A first line of fewer fields than most that follow is a title, a comment or a header without a name for
// the last column.
void check_header(const TableFile::Row& header, CsvReader records, const std::string& path) {
  constexpr int kSampled = 20;
  TableFile::Row row;
  std::vector<size_t> counts;
  for (int i = 0; i < kSampled && records.next(row); ++i) {
    if (row.size() > header.size())
      counts.push_back(row.size());
    else if (row.size() == header.size() && header.size() > 1)
      return;
  }
  if (counts.size() < 2) return;
  const bool title = header.size() == 1 || header[0].text.starts_with('#');
  throw Error(ExitCode::kBadData, cat(path, ":", header[0].line),
              cat("has ", header.size(), header.size() == 1 ? " field" : " fields", ", and later lines have ",
                  counts.back(), title ? ": it does not name the columns" : ": some column has no name"),
              title ? "remove the lines above that of the columns' names (comments, titles, notes)"
                    : "name every column there, or take the separators from the ends of the rows");
}

// The separator of columns that blanks keep apart cannot be told from blanks in names.
bool may_be_separated_by_blanks(const std::vector<std::string>& columns) {
  return columns.size() == 1 && columns[0].find_first_of(" \t") != std::string::npos;
}

// A field as it is written at the beginning of a file, where a byte order mark keeps its quotes from being
// quotes when files are joined.
std::string_view without_mark(std::string_view text) {
  const std::string_view rest = without_byte_order_mark(text);
  if (rest.size() == text.size()) return trim(text);
  std::string_view field = trim(rest);
  if (field.size() > 1 && field.starts_with('"') && field.ends_with('"'))
    field = field.substr(1, field.size() - 2);
  return trim(field);
}

}  // namespace

TableFile::TableFile(const std::filesystem::path& path, const TableFormatOptions& options)
    : file_(path), format_(find_table_format(content(), path.string(), options)) {
  CsvReader records = reader();
  Row row;
  if (!records.next(row)) throw Error(ExitCode::kBadData, this->path(), "has no rows");
  if (format_.header) check_header(row, records, this->path());
  std::set<std::string> names;
  for (size_t i = 0; i < row.size(); ++i) {
    std::string name(format_.header ? trim(row[i].text) : "");
    unnamed_.push_back(format_.header && name.empty());
    columns_.push_back(name);
    if (name.empty() || names.insert(std::move(name)).second) continue;
    throw Error(ExitCode::kBadData, place(row, i), cat("the column ", quote(columns_[i]), " is there twice"),
                "rename one of them, or set header: false if this is not a header");
  }
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (!columns_[i].empty()) continue;
    const std::string number = std::to_string(i + 1);
    columns_[i] = names.contains(number) ? "unnamed " + number : number;
  }
}

size_t TableFile::column(const std::string& name, const std::string& key) const {
  const auto found = std::find(columns_.begin(), columns_.end(), name);
  if (found != columns_.end()) return static_cast<size_t>(found - columns_.begin());
  int64_t number = 0;
  if (parse_integer(name, number) && number >= 1 && number <= static_cast<int64_t>(columns_.size())) {
    return static_cast<size_t>(number - 1);
  }
  fail_column(name, key);
}

size_t TableFile::same_column(const std::string& name, bool unnamed, const std::string& key) const {
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (columns_[i] == name && unnamed_[i] == unnamed) return i;
  }
  fail_column(name, key);
}

void TableFile::fail_column(const std::string& name, const std::string& key) const {
  constexpr size_t kMostShown = 20;
  const bool all = columns_.size() <= kMostShown;
  const std::vector<std::string> shown(columns_.begin(),
                                       all ? columns_.end() : columns_.begin() + kMostShown);
  if (2 * std::ranges::count(unnamed_, true) > std::ssize(columns_)) {
    throw Error(
        ExitCode::kBadRecipe, "table: " + key, cat(path(), " has no column ", quote(name)),
        "its first line names few columns: remove the lines above that of their names (titles, notes)");
  }
  if (may_be_separated_by_blanks(columns_)) {
    throw Error(ExitCode::kBadRecipe, "table: " + key, cat(path(), " has no column ", quote(name)),
                cat("its only column is ", quote(columns_[0]),
                    ": columns that blanks keep apart are read after tr -s ' ' ',' < old > new"));
  }
  const auto alike = std::ranges::find(columns_, lower(name), [](const std::string& c) { return lower(c); });
  const std::string near = alike != columns_.end() ? *alike : nearest(name, columns_);
  throw Error(ExitCode::kBadRecipe, "table: " + key, cat(path(), " has no column ", quote(name)),
              near.empty() ? cat("its columns are ", join(shown, ", "), all ? "" : ", …")
                           : cat("did you mean ", quote(near), "?"));
}

void TableFile::for_each_row(const std::function<void(int64_t number, const Row& row)>& visit) const {
  CsvReader records = reader();
  Row row;
  if (format_.header) records.next(row);
  for (int64_t number = 0; records.next(row); ++number) {
    check_row(row);
    visit(number, row);
  }
}

void TableFile::check_row(const Row& row) const {
  if (row.size() != columns_.size()) {
    throw Error(ExitCode::kBadData, cat(path(), ":", row.front().line),
                cat("has ", row.size(), " fields; there are ", columns_.size(), " columns"),
                "check the separator, and the quotes of this line and the one before");
  }
  if (is_header(row)) {
    throw Error(ExitCode::kBadData, cat(path(), ":", row.front().line), "has the names of the columns again",
                "remove the line: of files that are joined only the first keeps its header");
  }
  for (size_t i = 0; i < row.size(); ++i) {
    if (!row[i].quoted || !holds_rows(row, i)) continue;
    throw Error(ExitCode::kBadData, place(row, i),
                cat("is a quoted field of ", 1 + std::ranges::count(row[i].text, '\n'),
                    " lines that look like rows: its quote may be a character of the text"),
                "write such a quote twice in a field that is quoted, or remove all: tr -d '\"' < OLD > NEW");
  }
}

// The names again, in words: numbers may well be a row.
bool TableFile::is_header(const Row& row) const {
  if (!format_.header) return false;
  for (size_t i = 0; i < row.size(); ++i) {
    const std::string_view name = unnamed_[i] ? std::string_view() : columns_[i];
    if (without_mark(row[i].text) != name) return false;
  }
  return std::ranges::any_of(columns_, [](const std::string& name) { return !field_number(name); });
}

// Whether a text is the rest of a row, whole rows and the beginning of one, as it is between two quotes that
// were meant as characters: each line has the row's number of fields, and numbers where the row has them.
bool TableFile::holds_rows(const Row& row, size_t column) const {
  // Lines of a list in a cell may well be as two fields, the second a number.
  if (row.size() < 3 || row[column].text.find('\n') == std::string_view::npos) return false;
  const std::vector<std::string> lines = split(row[column].text, '\n');
  int64_t numbers = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::vector<std::string> fields = split(lines[i], format_.separator);
    const size_t first = i == 0 ? column : 0, end = i + 1 == lines.size() ? column + 1 : row.size();
    if (fields.size() != end - first) return false;
    for (size_t at = first; at < end; ++at) {
      if (at == column || !field_number(row[at].text, format_.decimal)) continue;
      if (!field_number(fields[at - first], format_.decimal)) return false;
      ++numbers;
    }
  }
  return numbers > 1;
}

std::string TableFile::place(const Row& row, size_t column) const {
  return cat(path(), ":", row[column].line, ":", row[column].column, ": ", columns_[column]);
}

std::string_view TableFile::content() const {
  const auto bytes = file_.bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace autotrain
