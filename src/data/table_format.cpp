#include "data/table_format.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "autotrain/error.h"
#include "base/text.h"
#include "data/csv.h"
#include "data/file_kinds.h"

namespace autotrain {
namespace {

constexpr std::array kSeparators = {',', ';', '\t', '|'};
constexpr int kSampledRecords = 200;

std::string in_words(char separator) {
  return separator == '\t' ? "tab" : quote(std::string(1, separator));
}

// Files that are named .csv, or taken for a table, and are something else.
void check_kind(std::string_view content, const std::string& file) {
  const auto fail = [&](const std::string& name, const std::string& cure) {
    throw Error(ExitCode::kBadData, file, cat("is ", name, ", not a table of text"), cure);
  };
  const auto* const bytes = reinterpret_cast<const uint8_t*>(content.data());
  const FileKind kind = kind_of_file({bytes, content.size()});
  if (content.starts_with("PK\x03\x04"))
    fail("a zip archive, as spreadsheets are", "save it as CSV from the spreadsheet, or unpack it first");
  if (!kind.name.empty() && !is_text({bytes, std::min<size_t>(content.size(), 4096)}))
    fail(kind.name,
         kind.cure.starts_with("unpack") ? kind.cure : "write its rows as CSV: pandas' to_csv does");
  const FileKind format = format_of_text(content.substr(0, 1024));
  if (format.name.empty()) return;
  fail(format.name, format.name == "JSON"
                        ? "write its rows as CSV: pandas.read_json(path).to_csv(path, index=False)"
                        : format.cure);
}

// Bytes of another encoding would make one category of all words that differ by such letters.
void check_utf8(std::string_view content, const std::string& file) {
  const auto* const bytes = reinterpret_cast<const uint8_t*>(content.data());
  const size_t at = first_invalid_utf8({bytes, content.size()});
  if (at == content.size()) return;
  constexpr std::string_view kDigits = "0123456789abcdef";
  const std::string byte = {kDigits[bytes[at] >> 4], kDigits[bytes[at] & 15]};
  throw Error(
      ExitCode::kBadData, cat(file, ":", 1 + std::ranges::count(content.substr(0, at), '\n')),
      cat("is no text in UTF-8: it has the byte 0x", byte, ", as older programs write letters beyond ASCII"),
      "save it as CSV UTF-8, or convert it: iconv -f WINDOWS-1252 -t UTF-8; of other scripts from "
      "WINDOWS-1251, SHIFT_JIS, GB18030 and the like");
}

void check_bytes(std::string_view content, const std::string& file) {
  check_kind(content, file);
  if (content.starts_with("\xff\xfe") || content.starts_with("\xfe\xff") ||
      content.substr(0, 4).find('\0') != std::string_view::npos) {
    throw Error(ExitCode::kBadData, file,
                "is no text in UTF-8: it looks like UTF-16, as spreadsheets write it",
                "save it as CSV UTF-8, or convert it: iconv -f UTF-16 -t UTF-8");
  }
  if (content.find('\r') != std::string_view::npos && content.find('\n') == std::string_view::npos &&
      content.find('\r') + 1 < content.size()) {
    throw Error(ExitCode::kBadData, file, "has lines that end in a carriage return alone, as old Macs wrote",
                "convert it: tr '\\r' '\\n'");
  }
  if (const size_t zero = content.find('\0'); zero != std::string_view::npos) {
    const auto line = 1 + std::ranges::count(content.substr(0, zero), '\n');
    throw Error(ExitCode::kBadData, cat(file, ":", line),
                "holds a zero byte, which no text has: it was damaged, or part of it was never written",
                "write the file again");
  }
  check_utf8(content, file);
}

// The fields of each of the first records; none where it cannot be read by this separator.
std::vector<size_t> field_counts(std::string_view content, char separator) {
  std::vector<size_t> counts;
  std::vector<CsvField> fields;
  CsvReader records(content, "", separator);
  try {
    for (int i = 0; i < kSampledRecords && records.next(fields); ++i) counts.push_back(fields.size());
  } catch (const Error&) {
    return {};  // a quote that ends no field: another separator's file
  }
  return counts;
}

bool is_even(const std::vector<size_t>& counts) {
  return !counts.empty() && counts[0] > 1 &&
         std::ranges::all_of(counts, [&](size_t count) { return count == counts[0]; });
}

// Of those by which all of the first records have as many fields; failing that, by which the first has most.
char find_separator(std::string_view content, const std::string& file, const TableFormatOptions& options) {
  if (const char named = CsvReader::named_separator(content)) return named;
  std::vector<char> even;
  char best = options.likely_separator;
  size_t most = 1;
  std::vector<char> candidates = {options.likely_separator};
  for (const char c : kSeparators) {
    if (c != options.likely_separator) candidates.push_back(c);
  }
  for (const char candidate : candidates) {
    const std::vector<size_t> counts = field_counts(content, candidate);
    if (is_even(counts)) even.push_back(candidate);
    if (counts.empty() || counts[0] <= most) continue;
    best = candidate, most = counts[0];
  }
  if (even.size() < 2) return even.empty() ? best : even[0];
  if (options.like && std::ranges::find(even, options.like->separator) != even.end())
    return options.like->separator;
  throw Error(ExitCode::kBadData, file,
              cat("may be separated by ", in_words(even[0]), " or by ", in_words(even[1]),
                  ": every line has as many fields by either"),
              "set separator");
}

enum class NumberForm { kOther, kByPoint, kByComma, kByEither };

// "1,5" of "1,5E+03"; all of a text without an exponent.
std::string_view without_exponent(std::string_view text) {
  const size_t mark = text.find_first_of("eE");
  if (mark == std::string_view::npos) return text;
  int64_t exponent = 0;
  return parse_integer(text.substr(mark + 1), exponent) ? text.substr(0, mark) : text;
}

// Which decimal mark alone makes a number of a field. By either: "1,234", "1.234", "12".
NumberForm form_of(std::string_view field) {
  field = trim(field);
  const std::string_view text = without_exponent(field);
  const size_t mark = text.find_last_of(".,");
  if (mark == std::string_view::npos || !is_digit(text.back())) return NumberForm::kOther;
  std::string_view whole = text.substr(0, mark), decimals = text.substr(mark + 1);
  if (whole.starts_with('-') || whole.starts_with('+')) whole.remove_prefix(1);
  if (!std::ranges::all_of(decimals, is_digit)) return NumberForm::kOther;
  const NumberForm by_mark = text[mark] == ',' ? NumberForm::kByComma : NumberForm::kByPoint;
  const char grouping = text[mark] == ',' ? '.' : ',';
  size_t digits = 0, groups = 0;  // digits since the last mark
  for (const char c : whole) {
    if (is_digit(c)) {
      ++digits;
    } else if (c == grouping && digits > 0) {
      digits = 0, ++groups;
    } else {
      return NumberForm::kOther;
    }
  }
  if (groups > 0) return digits == 3 ? by_mark : NumberForm::kOther;
  const bool may_group =
      text == field && decimals.size() == 3 && !whole.empty() && whole.size() <= 3 && whole[0] != '0';
  return may_group ? NumberForm::kByEither : by_mark;
}

// What the fields of a column say of their marks.
struct MarksOfColumn {
  int64_t points = 0;                 // "1.234", which may be either
  int64_t below = 0;                  // whole numbers without a mark, below 1000
  int64_t above = 0;                  // from 1000 on
  std::string place = {}, text = {};  // of the first with a point

  void add(const CsvField& field) {
    const std::string_view number = trim(field.text);
    if (number.find('.') != std::string_view::npos) {
      if (points++ > 0) return;
      place = cat(field.line, ":", field.column), text = number;
    } else if (!number.empty() && std::ranges::all_of(number, is_digit)) {
      (number.size() <= 3 ? below : above) += 1;
    }
  }

  // 1.234 beside 950, and never 1234: as thousands are written.
  bool may_be_thousands() const { return points > 0 && below > 0 && above == 0; }
};

DecimalMark find_decimal(std::string_view content, char separator, const std::string& file,
                         const TableFormatOptions& options) {
  const bool may_hold_commas = separator != ',' || content.find('"') != std::string_view::npos;
  if (!may_hold_commas) return DecimalMark::kPoint;
  const bool only_points = content.find(',') == std::string_view::npos;
  int64_t commas = 0, points = 0, either = 0;
  std::vector<CsvField> fields;
  std::vector<MarksOfColumn> columns;
  CsvReader records(content, file, separator);
  while (records.next(fields)) {
    columns.resize(std::max(columns.size(), fields.size()));
    for (size_t i = 0; i < fields.size(); ++i) {
      const NumberForm form = form_of(fields[i].text);
      commas += form == NumberForm::kByComma ? 1 : 0;
      points += form == NumberForm::kByPoint ? 1 : 0;
      if (only_points && points > 0) return DecimalMark::kPoint;
      either += form == NumberForm::kByEither ? 1 : 0;
      if (form == NumberForm::kByEither || form == NumberForm::kOther) columns[i].add(fields[i]);
    }
  }
  if (commas != points) return commas > points ? DecimalMark::kComma : DecimalMark::kPoint;
  if (options.like) return options.like->decimal;
  const auto doubtful = std::ranges::find_if(columns, &MarksOfColumn::may_be_thousands);
  if (either == 0 || separator == ',' || doubtful == columns.end()) return DecimalMark::kPoint;
  throw Error(ExitCode::kBadData, cat(file, ":", doubtful->place),
              cat(doubtful->text, " may have a point before its decimals or between thousands, as ",
                  "numbers below 1000 beside it have none"),
              "set decimal: point; or write thousands without points, with decimal: comma");
}

void remove_any(std::string_view& text, std::initializer_list<std::string_view> signs) {
  const auto removed = [&] {
    for (const std::string_view sign : signs) {
      if (text.starts_with(sign)) return text.remove_prefix(sign.size()), true;
      if (text.ends_with(sign)) return text.remove_suffix(sign.size()), true;
    }
    return false;
  };
  while (removed()) {}
}

// Digits in groups of three, and decimals: 1,234.5 and 1.234,5 and 1 234 567; in the Indian way 1,00,000.
bool is_grouped_number(std::string_view text) {
  constexpr std::array<std::string_view, 8> kMarks = {
      ",", ".", "'", " ", "_", "\xc2\xa0", "\xe2\x80\xaf", "\xe2\x80\x89"};
  std::vector<size_t> groups = {0};  // digits in each
  std::vector<std::string_view> marks;
  while (!text.empty() && text[0] != 'e') {
    const auto mark = std::ranges::find_if(kMarks, [&](std::string_view m) { return text.starts_with(m); });
    if (is_digit(text[0])) {
      ++groups.back();
      text.remove_prefix(1);
    } else if (mark != kMarks.end() && groups.back() > 0) {
      groups.push_back(0);
      marks.push_back(*mark);
      text.remove_prefix(mark->size());
    } else {
      return false;
    }
  }
  if (!text.empty() && !field_number("1" + std::string(text))) return false;  // no exponent
  if (groups.back() == 0 || marks.empty()) return groups.back() > 0;
  const bool may_be_decimals = marks.back() == "," || marks.back() == ".";
  const bool decimals = may_be_decimals && (marks.size() == 1 || marks.back() != marks[0]);
  const size_t whole = groups.size() - (decimals ? 1 : 0);  // groups before the decimals
  for (size_t i = 1; i < whole; ++i) {
    const bool last = i + 1 == whole;
    if (marks[i - 1] != marks[0] || (groups[i] != 3 && (last || groups[i] != 2))) return false;
  }
  return true;
}

}  // namespace

TableFormat find_table_format(std::string_view content, const std::string& file,
                              const TableFormatOptions& options) {
  check_bytes(content, file);
  TableFormat format{.header = options.header};
  format.separator = options.separator ? *options.separator : find_separator(content, file, options);
  format.decimal =
      options.decimal ? *options.decimal : find_decimal(content, format.separator, file, options);
  return format;
}

std::optional<double> field_number(std::string_view text, DecimalMark decimal) {
  text = trim(text);
  std::array<char, 64> with_point{};
  if (decimal == DecimalMark::kComma && text.find_first_of(",.") != std::string_view::npos) {
    if (text.size() > with_point.size() || text.find('.') != std::string_view::npos) return std::nullopt;
    std::ranges::replace_copy(text, with_point.begin(), ',', '.');
    text = {with_point.data(), text.size()};
  }
  double number = 0;
  if (!parse_real(text, number)) return std::nullopt;
  if (!(std::abs(number) <= double{std::numeric_limits<float>::max()})) return std::nullopt;
  return number;
}

bool looks_like_number(std::string_view text) {
  remove_any(text, {" ", "~", "<", ">", "=", "+", "-", "%", "$", "*", "'",        "(",
                    ")", "≈", "±", "≤", "≥", "−", "€", "£", "¥", "‰", "\xc2\xa0", "\xe2\x80\xaf"});
  const std::string word = lower(text);
  double number = 0;
  return word == "inf" || word == "infinity" || parse_real(text, number) || is_grouped_number(word);
}

bool has_leading_zeros(std::string_view text) {
  text = trim(text);
  if (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
  return text.size() > 1 && text[0] == '0' && is_digit(text[1]);
}

}  // namespace autotrain
