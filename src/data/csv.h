#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace autotrain {

struct CsvField {
  std::string_view text;  ///< without quotes
  int64_t line = 0;       ///< of the file, from 1
  int64_t column = 0;     ///< byte of that line, from 1
  bool quoted = false;
};

/// Records of RFC 4180: quoted fields may hold separators, line ends and doubled quotes; lines end in LF or
/// CRLF; a byte order mark is skipped. Beyond the RFC, blank lines and a first line that names the separator,
/// "sep=;", are skipped, and a quote inside a field that does not start with one is an ordinary character.
class CsvReader {
 public:
  /// The separator that the first line names, as spreadsheets write it; 0: it names none.
  static char named_separator(std::string_view content);

  /// @param content must outlive this object.
  /// @param file of messages only.
  CsvReader(std::string_view content, std::string file, char separator);

  /// Reads the next record, whose texts are valid until the next call or the end of this object; false at the
  /// end.
  /// @throws Error(kBadData) with file, line and column.
  bool next(std::vector<CsvField>& fields) &;

 private:
  [[noreturn]] void fail(const CsvField& at, const std::string& what, const std::string& hint) const;
  void pass_blanks_before_a_quote();
  CsvField start_field() const;
  CsvField plain_field();
  CsvField quoted_field();
  std::string_view text_to_closing_quote(const CsvField& field);
  bool at_line_end() const;
  void pass_line_end();
  void pass_newlines(std::string_view text);

  std::string_view content_;
  std::string file_;
  char separator_;
  size_t at_ = 0;
  int64_t line_ = 1;
  size_t line_start_ = 0;
  std::deque<std::string> unescaped_;  // texts of this record that had doubled quotes
};

}  // namespace autotrain
