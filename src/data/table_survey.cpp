#include "data/table_survey.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "base/units.h"

namespace autotrain {
namespace {

constexpr int64_t kFewNumbers = 20;  // with no more, numbers beside words are taken for codes

// What spreadsheets write where a formula has no value: #REF!, #DIV/0!, #NAME?, in their languages, ##### for
// a number that was too wide, and Err:502.
bool is_sheet_error(std::string_view text) {
  const auto is_of_name = [](char c) { return is_digit(c) || c == '/' || (c >= 'A' && c <= 'Z'); };
  if (text.starts_with("Err:")) return text.size() > 4 && std::ranges::all_of(text.substr(4), is_digit);
  if (text.size() < 3 || text[0] != '#') return false;
  if (std::ranges::all_of(text, [](char c) { return c == '#'; })) return true;
  const bool marked = text.ends_with('!') || text.ends_with('?');
  return marked && text.size() > 3 && std::ranges::all_of(text.substr(1, text.size() - 2), is_of_name);
}

}  // namespace

MissingWords::MissingWords(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    words_.insert(lower(trim(word)));
    longest_ = std::max(longest_, word.size());
  }
}

const std::vector<std::string>& MissingWords::usual() {
  static const std::vector<std::string> words = {"NA",   "N/A", "#N/A", "<NA>", "NaN", "-NaN", "NaT", "NULL",
                                                 "None", "nil", "\\N",  "?",    "-",   "--",   "."};
  return words;
}

bool MissingWords::contains(std::string_view text) const {
  return text.size() <= longest_ && words_.contains(lower(text));
}

void FieldPlaces::add(const TableFile& file, const TableFile::Row& row, size_t column) {
  if (++count > static_cast<int64_t>(kMost)) return;
  const CsvField& field = row[column];
  first.push_back(
      {file.place(row, column), cat(field.line, ":", field.column), std::string(quote(trim(field.text)))});
}

std::string FieldPlaces::others() const {
  if (count < 2) return "";
  std::vector<std::string> told;
  for (size_t i = 1; i < first.size(); ++i) told.push_back(first[i].at + " " + first[i].text);
  const bool all = count == static_cast<int64_t>(first.size());
  return cat("also at ", join(told, ", "), all ? "" : ", …");
}

std::string FieldPlaces::counted_others() const {
  return count < 2 ? "" : cat("; ", format_count(count), " such fields, ", others());
}

std::string_view word_of(const CsvField& field) {
  const std::string_view text = trim(field.text);
  return text.empty() && field.quoted ? kEmptyText : text;
}

void ColumnSurvey::add(const TableFile& file, const TableFile::Row& row, size_t column,
                       const MissingWords& missing_words, bool counts) {
  const CsvField& field = row[column];
  const std::string_view text = trim(field.text);
  ++rows;
  decimal = file.format().decimal;
  if (!too_many_texts) {
    const std::string_view word = word_of(field);
    if (const auto found = texts.find(word); found != texts.end()) {
      ++found->second;
    } else if (texts.size() < most_texts) {
      texts.emplace(word, 1);
    } else {
      too_many_texts = true;
    }
  }
  if (text.empty()) {
    empty += field.quoted ? 0 : 1;
    return missing.add(file, row, column);
  }
  const auto number = field_number(text, decimal);
  if (number && !missing_words.contains(text)) {
    if (has_leading_zeros(text)) coded.add(file, row, column);
    return add_number(*number, counts);
  }
  if (missing_words.contains(text)) return (field.quoted ? quoted_words : missing).add(file, row, column);
  if (!field.quoted && is_sheet_error(text)) sheet_errors.add(file, row, column);
  near_numbers += looks_like_number(text) ? 1 : 0;
  words.add(file, row, column);
}

void ColumnSurvey::add_number(double number, bool counts) {
  least = numbers == 0 ? number : std::min(least, number);
  most = numbers == 0 ? number : std::max(most, number);
  ends.add(number);
  if (number != std::floor(number)) whole = false;
  if (numbers > 0) {
    consecutive = consecutive && number == last + 1;
    rising = rising && number > last;
  }
  last = number;
  row_of_last = rows;
  sum += number, absolute_sum += std::abs(number);
  not_zero += number != 0 ? 1 : 0;
  ++numbers;
  if (!counts) return;
  counted += 1;
  const double distance = number - mean;
  mean += distance / counted;
  squares += distance * (number - mean);
}

int64_t ColumnSurvey::different_numbers() const {
  return std::ranges::count_if(
      texts, [&](const auto& text) { return field_number(text.first, decimal).has_value(); });
}

bool ColumnSurvey::ends_in_total() const {
  constexpr int64_t kFewestNumbers = 10;  // that are not 0: fewer may add up by chance
  constexpr double kRounding = 1e-6;      // of the sum of all
  if (not_zero < kFewestNumbers || row_of_last != rows || last == 0 || least * most < 0) return false;
  return std::abs(last - (sum - last)) <= kRounding * absolute_sum;
}

bool ColumnSurvey::is_undecided() const {
  return words.count > 0 && numbers >= words.count && different_numbers() > kFewNumbers;
}

}  // namespace autotrain
