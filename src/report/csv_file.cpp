#include "report/csv_file.h"

#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "base/text.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

constexpr size_t kBufferBytes = 1 << 20;

// Spreadsheets take a cell that begins so for a formula, which whoever names a file or a class could then
// have computed: https://owasp.org/www-community/attacks/CSV_Injection
bool is_taken_for_formula(const std::string& cell) {
  double number = 0;
  return !cell.empty() && std::string_view("=+-@\t\r").find(cell[0]) != std::string_view::npos &&
         !parse_real(cell, number);
}

// Names of files may hold any bytes; each that is no UTF-8 becomes U+FFFD.
std::string valid_text(const std::string& cell) {
  const bool ascii = std::ranges::all_of(cell, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  return ascii ? cell : as_written(cell).get<std::string>();
}

std::string plain_text(const std::string& cell) {
  return (is_taken_for_formula(cell) ? "'" : "") + valid_text(cell);
}

std::string quoted(const std::string& cell) {
  if (cell.find_first_of(",\"\r\n") == std::string::npos) return cell;
  std::string out = "\"";
  for (const char c : cell) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

}  // namespace

std::string csv_number(double value) {
  return std::isfinite(value) ? shortest(value) : "";
}

std::string csv_cell(const nlohmann::ordered_json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean() || value.is_number_integer()) return words_of_json(value);
  return csv_number(number_of(value));
}

std::string csv_line(const std::vector<std::string>& cells) {
  std::vector<std::string> out;
  for (const std::string& cell : cells) out.push_back(quoted(plain_text(cell)));
  return join(out, ",") + "\r\n";
}

CsvFile::CsvFile(fs::path path, const std::vector<std::string>& header)
    : path_(std::move(path)),
      unfinished_(path_.string() + ".unfinished"),
      file_(unfinished_, OutputFile::Mode::kTruncate) {
  add_row(header);
}

CsvFile::~CsvFile() {
  std::error_code ignored;
  fs::remove(unfinished_, ignored);  // there only when something failed
}

void CsvFile::add_row(const std::vector<std::string>& cells) {
  buffer_ += csv_line(cells);
  if (buffer_.size() < kBufferBytes) return;
  file_.write(buffer_);
  buffer_.clear();
}

void CsvFile::finish() {
  file_.write(buffer_);
  rename_into_place(unfinished_, path_);
}

}  // namespace autotrain
