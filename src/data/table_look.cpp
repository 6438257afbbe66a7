#include "data/table_look.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "base/text.h"
#include "base/units.h"
#include "data/batches.h"
#include "data/file_names.h"
#include "data/low_values.h"

namespace autotrain {
namespace {

constexpr int64_t kFewRows = 10;  // in fewer, numbers may rise and columns agree by chance
constexpr int64_t kManyWords = 20;
constexpr size_t kBars = 20;
constexpr int64_t kChunk = 4096;

// ------------------------------------------------------------------ columns

int64_t different(const ColumnSurvey& survey) {
  return static_cast<int64_t>(survey.texts.size());
}

std::string different_in_words(const ColumnSurvey& survey) {
  return (survey.too_many_texts ? "more than " : "") + format_count(different(survey));
}

// The most frequent first.
void sort_by_count(std::vector<std::pair<std::string, int64_t>>& counts) {
  std::ranges::sort(counts, [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
}

// Of the most frequent, with how often they are there.
std::vector<std::pair<std::string, int64_t>> commonest(const ColumnSurvey& survey, size_t most) {
  std::vector<std::pair<std::string, int64_t>> counts(survey.texts.begin(), survey.texts.end());
  sort_by_count(counts);
  if (counts.size() > most) counts.resize(most);
  return counts;
}

std::string shown(const std::string& text) {
  return text.empty() ? "(missing)" : text == kEmptyText ? "(empty)" : text;
}

std::string values_in_words(const ColumnSurvey& survey, bool words) {
  if (!words) return survey.numbers == 0 ? "" : cat(brief(survey.least), " to ", brief(survey.most));
  constexpr size_t kShown = 3;
  std::vector<std::string> parts;
  for (const auto& [text, count] : commonest(survey, kShown))
    parts.push_back(cat(shown(text), " (", format_count(count), ")"));
  return join(parts, ", ") + (survey.texts.size() > kShown ? ", …" : "");
}

std::string example_of(const ColumnSurvey& survey) {
  const auto most = commonest(survey, 2);
  for (const auto& [text, count] : most) {
    if (!text.empty()) return text;
  }
  return "";
}

void add_column(LookTable& table, const std::string& name, const std::string& type,
                const ColumnSurvey& survey, bool words) {
  table.rows.push_back({name, type, words ? survey.empty : survey.missing.count + survey.quoted_words.count,
                        different_in_words(survey), values_in_words(survey, words), example_of(survey)});
}

// @param part whether the data are a part of the file, of all of whose rows the columns are told.
LookTable columns_of(const TableEncoding& encoding, bool part) {
  LookTable table{.title = part ? "columns of the whole file" : "columns",
                  .header = {"column", "type", "missing", "different", "values", "example"}};
  for (const ColumnEncoding& column : encoding.features)
    add_column(table, column.name, column.categorical ? "categories" : "numbers", column.survey,
               column.categorical);
  add_column(table, encoding.target, encoding.has_classes() ? "target: classes" : "target: number",
             encoding.target_survey, encoding.has_classes());
  return table;
}

// The rows are those of the data, which may be a part of the file.
void add_target(const TableEncoding& encoding, const Dataset& data, DataLook& look) {
  look.facts.emplace_back("target", cat(encoding.target, ": ", encoding.task(), ", since ", encoding.reason));
  if (!encoding.has_classes()) return;
  std::map<int64_t, int64_t> rows;  // by class
  for (const int64_t number : dynamic_cast<const Classified&>(data).classes_of_samples()) ++rows[number];
  std::vector<std::pair<std::string, int64_t>> counts;
  for (const auto& [name, number] : encoding.classes) counts.emplace_back(name, rows[number]);
  sort_by_count(counts);
  LookBars bars{.title = "rows by class"};
  for (size_t i = 0; i < counts.size() && i < kBars; ++i) {
    bars.labels.push_back(counts[i].first);
    bars.counts.push_back(counts[i].second);
  }
  if (counts.size() > kBars) bars.title += cat(", the largest ", kBars, " of ", counts.size());
  look.bars.push_back(std::move(bars));
}

// ------------------------------------------------------------------ doubts of one column

bool is_like_row_numbers(const ColumnEncoding& column) {
  const ColumnSurvey& s = column.survey;
  return !column.categorical && s.whole && s.numbers == s.rows && s.rows >= kFewRows && s.rising;
}

// Whether texts are numbers with a unit behind them: "1248 cc", "5km".
bool are_numbers_with_units(const ColumnSurvey& survey) {
  const auto has_unit = [](const auto& item) {
    const std::string_view text = item.first;
    const size_t end = text.find_first_not_of("+-.,0123456789");
    const std::string_view unit = end == std::string_view::npos ? "" : trim(text.substr(end));
    return end != 0 && !unit.empty() && is_letter(unit[0]);
  };
  return 10 * std::ranges::count_if(survey.texts, has_unit) >= 9 * different(survey);
}

// A number in a text, and what stands before and behind it.
struct WrappedNumber {
  std::string_view before, number, behind;
};

WrappedNumber unwrap(std::string_view text) {
  constexpr std::string_view kOfNumbers = "+-.,0123456789";
  const size_t begin = std::min(text.find_first_of(kOfNumbers), text.size());
  const size_t end = std::min(text.find_first_not_of(kOfNumbers, begin), text.size());
  return {text.substr(0, begin), text.substr(begin, end - begin), text.substr(end)};
}

// Whether all texts are numbers in one and the same dress: "[12]", "30°C", "EUR 5.20". Letters before them
// may make names of whole ones ("shop 12"), and zeros codes ("P007").
bool are_dressed_numbers(const ColumnSurvey& survey) {
  constexpr int64_t kFewest = 5;
  std::optional<WrappedNumber> first;
  int64_t count = 0;
  bool decimals = false;
  for (const auto& [text, times] : survey.texts) {
    if (text.empty()) continue;
    const WrappedNumber one = unwrap(text);
    if (!first) first = one;
    const bool alike = one.before == first->before && one.behind == first->behind;
    if (!alike || !field_number(one.number, survey.decimal) || has_leading_zeros(one.number)) return false;
    decimals = decimals || one.number.find_first_of(".,") != std::string_view::npos;
    ++count;
  }
  if (count < kFewest || survey.too_many_texts) return false;
  const bool named =
      std::ranges::any_of(first->before, [](char c) { return is_letter(c) || c == '#' || c == '_'; });
  return named ? decimals : !(first->before.empty() && first->behind.empty());
}

// In small letters, without characters that nobody sees, and with one plain blank for any between words.
std::string plain_form(const std::string& text) {
  static constexpr std::array<std::string_view, 8> kUnseen = {"\u00ad", "\u200b", "\u200c", "\u200d",
                                                              "\u200e", "\u200f", "\u2060", "\ufeff"};
  static constexpr std::array<std::string_view, 6> kBlanks = {" ",      "\t",     "\u00a0",
                                                              "\u2009", "\u202f", "\u3000"};
  const auto taken = [](std::string_view& rest, const auto& characters) {
    for (const std::string_view c : characters) {
      if (!rest.starts_with(c)) continue;
      rest.remove_prefix(c.size());
      return true;
    }
    return false;
  };
  std::string plain;
  for (std::string_view rest = text; !rest.empty();) {
    if (taken(rest, kUnseen)) continue;
    if (taken(rest, kBlanks)) {
      if (!plain.empty() && plain.back() != ' ') plain += ' ';
      continue;
    }
    plain += rest.front();
    rest.remove_prefix(1);
  }
  if (plain.ends_with(' ')) plain.pop_back();
  return lower(plain);
}

// Texts that are one when case, or the way in which a number is written, is left aside.
std::vector<std::string> alike(const ColumnSurvey& survey) {
  std::map<std::string, std::vector<std::string>> by_sense;
  for (const auto& [text, count] : survey.texts) {
    const auto number = field_number(text, survey.decimal);
    by_sense[number ? shortest(*number) : plain_form(text)].push_back(text);
  }
  std::vector<std::string> out;
  for (auto& [sense, texts] : by_sense) {
    if (texts.size() < 2) continue;
    std::ranges::sort(texts);
    for (std::string& text : texts) text = quote(text);
    out.push_back(join(texts, " and "));
  }
  std::vector<std::string> texts;
  for (const auto& [text, count] : survey.texts) texts.push_back(text);
  for (const auto& [joined, apart] : alike_but_for_marks(texts))
    out.push_back(cat(quote(joined), " and ", quote(apart), ", whose accents stand apart"));
  return out;
}

// Whether a word is a month's name or the beginning of one, in English as programs write it.
bool is_month(std::string_view word) {
  static constexpr std::array<std::string_view, 12> kMonths = {
      "january", "february", "march",     "april",   "may",      "june",
      "july",    "august",   "september", "october", "november", "december"};
  return word.size() >= 3 &&
         std::ranges::any_of(kMonths, [&](std::string_view month) { return month.starts_with(lower(word)); });
}

// Whether texts are dates with a month's name: 1 Mar 2024, March 1, 2024, Mar-24.
bool is_date_in_words(std::string_view text) {
  int months = 0, numbers = 0;
  for (size_t at = 0; at < text.size();) {
    const bool digit = is_digit(text[at]);
    if (!digit && !is_letter(text[at])) {
      if (std::string_view(" -/.,").find(text[at]) == std::string_view::npos) return false;
      ++at;
      continue;
    }
    size_t end = at;
    while (end < text.size() && (digit ? is_digit(text[end]) : is_letter(text[end]))) ++end;
    const std::string_view word = text.substr(at, end - at);
    if (!digit && !is_month(word)) return false;
    if (digit && word.size() > 2 && word.size() != 4) return false;
    (digit ? numbers : months) += 1;
    at = end;
  }
  return months == 1 && numbers > 0 && numbers < 3;
}

// Whether texts are times of a day or durations: 7:30, 07:30:15, 7:30 PM.
bool is_time(std::string_view text) {
  for (const std::string_view half : {"am", "pm", "AM", "PM"}) {
    if (text.ends_with(half)) text = trim(text.substr(0, text.size() - half.size()));
  }
  const std::vector<std::string> parts = split(text, ':');
  if (parts.size() < 2 || parts.size() > 3) return false;
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool whole = !parts[i].empty() && std::ranges::all_of(parts[i], is_digit);
    if (!whole || parts[i].size() > 2 || (i > 0 && (parts[i].size() != 2 || parts[i][0] > '5'))) return false;
  }
  return true;
}

// Whether texts are dates: 2024-03-01, 1.3.24, 2024/03/01 12:30.
bool is_date(std::string_view text) {
  if (is_date_in_words(text)) return true;
  int groups = 0, digits = 0, years = 0, marks = 0;
  char mark = 0;  // one kind of it stands between all
  const auto end_group = [&] {
    groups += digits > 0 ? 1 : 0;
    years += digits == 4 ? 1 : 0;
    const bool ok = digits == 1 || digits == 2 || digits == 4;
    digits = 0;
    return ok;
  };
  for (const char c : text.substr(0, text.find_first_of(" T"))) {
    if (is_digit(c)) {
      ++digits;
    } else if ((c == '-' || c == '/' || c == '.') && (mark == 0 || c == mark) && end_group()) {
      mark = c;
      ++marks;
    } else {
      return false;
    }
  }
  return end_group() && groups == 3 && marks == 2 && years < 2;
}

// Whether a whole number is a day, as 20240301.
bool is_day(double number) {
  if (!(number >= 19000101 && number < 21010000)) return false;
  const auto day = static_cast<int64_t>(number);
  const int64_t month = day / 100 % 100;
  return month >= 1 && month <= 12 && day % 100 >= 1 && day % 100 <= 31;
}

bool are_days(const ColumnSurvey& s) {
  if (!s.whole || s.numbers == 0 || !is_day(s.least) || !is_day(s.most)) return false;
  return std::ranges::all_of(s.texts, [&](const auto& item) {
    const auto number = field_number(item.first, s.decimal);
    return !number || is_day(*number);
  });
}

bool is_capital(char c) {
  return c >= 'A' && c <= 'Z';
}

// Whether a column's name says that its values name the rows: PatientID, and not PAID.
bool is_named_as_key(const std::string& name) {
  const std::string word = lower(name);
  static constexpr std::array<std::string_view, 8> kKeys = {"id",      "uuid",    "key",    "index",
                                                            "patient", "subject", "person", "session"};
  return std::ranges::find(kKeys, word) != kKeys.end() || word.ends_with("_id") || word.ends_with(" id") ||
         word.ends_with("-id") || name.ends_with("Id") ||
         (name.ends_with("ID") && name.size() > 2 && !is_capital(name[name.size() - 3]));
}

void doubt_total(const std::string& path, const std::string& name, const ColumnSurvey& survey,
                 DataLook& look) {
  if (!survey.ends_in_total()) return;
  look.doubt("columns whose last number is the sum of all others", "remove the row of totals from the file",
             cat(path, ": ", quote(name), ": ", shortest(survey.last)));
}

// Letters that were no text to a program, which wrote this sign for each: words that differ by them are one.
void doubt_lost_letters(const std::string& place, const ColumnSurvey& survey, DataLook& look) {
  constexpr std::string_view kLost = "\ufffd";
  for (const auto& [text, count] : survey.texts) {
    if (text.find(kLost) == std::string::npos) continue;
    look.doubt("words of which letters were lost when the file was written",
               "write it again from its source, as UTF-8: words that differ by such letters alone are one",
               cat(place, ": ", quote(text)));
  }
}

// What a column of numbers may be instead.
void doubt_numbers(const std::string& place, const ColumnEncoding& column, const char* leave_out,
                   DataLook& look) {
  const ColumnSurvey& s = column.survey;
  if (const auto stand_in = s.ends.stand_in()) {
    look.doubt("numbers that may stand for what is missing",
               "list them in missing_words if they do, and set missing: mean",
               cat(place, ": ", shortest(*stand_in), ", far from all others"));
  }
  if (are_days(s)) {
    look.doubt("columns of dates, taken as numbers",
               "make numbers of them, such as days since the first; or name features to leave it out",
               cat(place, ": ", brief(s.least, 8)));
  }
  const bool all_differ = s.numbers == s.rows && (s.too_many_texts || different(s) == s.rows);
  if (s.whole && all_differ && s.rows >= kFewRows && !is_like_row_numbers(column) &&
      is_named_as_key(column.name))
    look.doubt("features that name the rows, by their names and values", leave_out, place);
}

// @param meant whether the recipe says that these are categories.
void doubt_column(const std::string& path, const ColumnEncoding& column, bool meant, DataLook& look) {
  const ColumnSurvey& s = column.survey;
  const std::string place = cat(path, ": ", quote(column.name));
  doubt_total(path, column.name, s, look);
  const char* const kLeaveOut = "name features to leave it out";
  if (column.unnamed && is_like_row_numbers(column))
    look.doubt("columns without a name, which look like row numbers", kLeaveOut, place);
  else if (column.unnamed)
    look.doubt("columns without a name", kLeaveOut, place);
  else if (is_like_row_numbers(column))
    look.doubt(
        "features that look like row numbers", kLeaveOut,
        cat(place, ": ", brief(s.least), " to ", brief(s.most), s.consecutive ? ", one by one" : ", rising"));
  if (s.rows > 1 && s.texts.size() == 1)
    look.doubt("features of which all fields are the same", kLeaveOut, place);
  else if (!column.categorical && s.numbers == 0)
    look.doubt("features without any value", kLeaveOut, place);
  if (!column.categorical) doubt_numbers(place, column, kLeaveOut, look);
  if (!column.categorical && s.coded.count > 0) {
    look.doubt("numbers with leading zeros, as codes have them", "list the column in categorical if they are",
               cat(s.coded.first[0].where, ": ", s.coded.first[0].text))
        .count += s.coded.count - 1;
  }
  if (!column.categorical && s.quoted_words.count > 0) {
    look.doubt("words in quotes that count as missing",
               "set missing_words, or list the column in categorical",
               cat(s.quoted_words.first[0].where, ": ", s.quoted_words.first[0].text));
  }
  if (!column.categorical) {
    for (const FieldPlace& bad : s.words.first) {
      Doubt& doubt = look.doubt("fields that are no numbers, and so are missing", "correct them",
                                cat(bad.where, ": ", bad.text));
      if (&bad == &s.words.first.back()) doubt.count += s.words.count - std::ssize(s.words.first);
    }
    return;
  }
  const auto dates = std::ranges::count_if(s.texts, [](const auto& item) { return is_date(item.first); });
  const auto times = std::ranges::count_if(s.texts, [](const auto& item) { return is_time(item.first); });
  if (different(s) > 1 && 10 * dates >= 9 * different(s)) {
    look.doubt("columns of dates, taken as categories",
               "make numbers of them, such as days since the first; or name features to leave it out",
               cat(place, ": ", quote(example_of(s))));
  } else if (different(s) > 1 && 10 * times >= 9 * different(s)) {
    look.doubt("columns of times, taken as categories",
               "make numbers of them, such as minutes since midnight; or name features to leave it out",
               cat(place, ": ", quote(example_of(s))));
  } else if ((different(s) > kManyWords && are_numbers_with_units(s)) || (!meant && are_dressed_numbers(s))) {
    look.doubt("columns of numbers with units, taken as categories",
               "take the units out of the file, or name categories, such as versions, in categorical",
               cat(s.words.first[0].where, ": ", s.words.first[0].text));
  } else if (different(s) > kManyWords && 2 * different(s) > s.rows && s.words.count > 0) {
    look.doubt("columns of words of which most are there once or twice, such as names, dates or texts",
               kLeaveOut,
               cat(place, ": ", format_count(different(s)), " different in ", format_count(s.rows), " rows"));
  }
  if (s.words.count > 0 && s.different_numbers() > kManyWords) {
    look.doubt("columns of numbers and words, taken as categories", "list it in numeric, or in categorical",
               cat(s.words.first[0].where, ": ", s.words.first[0].text));
  }
  for (const std::string& texts : alike(s))
    look.doubt("categories that differ only in how they are written", "write them alike if they are the same",
               cat(place, ": ", texts));
  if (s.sheet_errors.count > 0) {
    look.doubt("errors of a spreadsheet, taken as categories", "correct them in the spreadsheet",
               cat(s.sheet_errors.first[0].where, ": ", s.sheet_errors.first[0].text))
        .count += s.sheet_errors.count - 1;
  }
  doubt_lost_letters(place, s, look);
}

void doubt_target(const std::string& path, const TableEncoding& encoding, DataLook& look) {
  const ColumnSurvey& s = encoding.target_survey;
  const auto stand_in = s.words.count == 0 ? s.ends.stand_in(encoding.has_classes()) : std::nullopt;
  if (stand_in) {
    look.doubt("targets that may stand for what is missing", "remove the rows if they do",
               cat(path, ": ", quote(encoding.target), ": ", shortest(*stand_in), ", far from all others"));
  }
  if (!encoding.has_classes()) {
    doubt_total(path, encoding.target, s, look);
    if (s.rows > 1 && s.numbers > 0 && s.least == s.most)
      look.doubt("targets that are all the same", "name another target",
                 cat(path, ": ", quote(encoding.target), ": ", brief(s.least)));
    doubt_large_targets(s.least, s.most, cat(path, ": ", quote(encoding.target)), look);
    return;
  }
  doubt_lost_letters(cat(path, ": ", quote(encoding.target)), s, look);
  for (const std::string& texts : alike(encoding.target_survey))
    look.doubt("classes that differ only in how they are written", "write them alike if they are the same",
               cat(path, ": ", quote(encoding.target), ": ", texts));
  for (const auto& [name, number] : encoding.classes) {
    const auto found = encoding.target_survey.texts.find(name);
    if (encoding.target_survey.rows > kFewRows && found->second == 1)
      look.doubt("classes of a single row", "correct the field, or give more rows",
                 cat(path, ": ", quote(encoding.target), ": ", quote(name)));
  }
}

// Of the training file: names that are numbers with decimals over numbers, or one of the target's classes.
bool is_header_of_data(const TableEncoding& encoding) {
  const auto decimals = [&](const ColumnEncoding& column) {
    return !column.categorical && column.name.find_first_of(".,") != std::string::npos &&
           field_number(column.name, encoding.format.decimal).has_value();
  };
  const bool words = encoding.has_classes() && encoding.classes.contains(encoding.target) &&
                     !field_number(encoding.target, encoding.format.decimal);
  return words || std::ranges::any_of(encoding.features, decimals);
}

void doubt_header(const TableFile& file, const TableEncoding* training, DataLook& look) {
  const bool numbers = std::ranges::all_of(file.columns(), [&](const std::string& name) {
    return field_number(name, file.format().decimal).has_value();
  });
  bool unnamed = false;
  for (size_t i = 0; i < file.columns().size(); ++i) unnamed = unnamed || file.is_unnamed(i);
  const bool looks_so = training != nullptr && is_header_of_data(*training);
  if (file.format().header && ((numbers && !unnamed) || looks_so))
    look.doubt("first lines that look like data, not names", "set header: false", file.path() + ":1");
}

// ------------------------------------------------------------------ the whole look

// Calls `visit` with the rows of each chunk: inputs [n, width], targets [n] or [n, 1].
void for_each_chunk(const Dataset& data, const LookOptions& options,
                    const std::function<void(const Batch&)>& visit) {
  int64_t done = 0;
  for_each_batch(data, kChunk, [&](const Batch& batch) {
    visit(batch);
    if (options.progress) options.progress(done += batch.samples, data.size());
    return true;
  });
}

// Of the inputs and the target.
using RowHash = std::pair<uint64_t, uint64_t>;

RowHash hash_of(const Batch& batch, int64_t row) {
  const auto bytes_of = [&](const torch::Tensor& all) {
    const size_t bytes = all.nbytes() / static_cast<size_t>(all.size(0));
    return std::string_view(static_cast<const char*>(all.const_data_ptr()) + bytes * static_cast<size_t>(row),
                            bytes);
  };
  const std::hash<std::string_view> hash;
  return {hash(bytes_of(batch.inputs)), hash(bytes_of(batch.targets))};
}

std::vector<RowHash> sorted_hashes(const Dataset& data, const LookOptions& options) {
  std::vector<RowHash> hashes;
  for_each_chunk(data, options, [&](const Batch& batch) {
    for (int64_t i = 0; i < batch.samples; ++i) hashes.push_back(hash_of(batch, i));
  });
  std::ranges::sort(hashes);
  return hashes;
}

void count_rows_of_training(const LookRequest& request, DataLook& look) {
  const std::vector<RowHash> training = sorted_hashes(*request.training, request.options);
  int64_t number = 0;
  for_each_chunk(request.data, request.options, [&](const Batch& batch) {
    for (int64_t i = 0; i < batch.samples; ++i, ++number) {
      if (std::ranges::binary_search(training, hash_of(batch, i)))
        look.doubt("rows that are in the training data, too", "remove them here or there",
                   cat("row ", format_count(number + 1)));
    }
  });
}

void count_repeated_rows(const LookRequest& request, DataLook& look) {
  const std::vector<RowHash> hashes = sorted_hashes(request.data, request.options);
  int64_t repeated = 0, contradicted = 0;
  for (size_t i = 1; i < hashes.size(); ++i) repeated += hashes[i] == hashes[i - 1] ? 1 : 0;
  for (size_t first = 0, end = 0; first < hashes.size(); first = end) {  // rows of the same inputs
    while (end < hashes.size() && hashes[end].first == hashes[first].first) ++end;
    if (hashes[end - 1].second != hashes[first].second) contradicted += static_cast<int64_t>(end - first);
  }
  look.facts.emplace_back("rows that repeat another", format_count(repeated));
  look.facts.emplace_back("rows of the same inputs with different targets", format_count(contradicted));
}

// Whether one feature alone tells the target: each of its values one class and each class one value, or
// numbers in a straight line.
class Giveaway {
 public:
  void add(double value, double target) {
    count_ += 1;
    const double from_value = value - value_, from_target = target - target_;
    value_ += from_value / count_;
    target_ += from_target / count_;
    values_ += from_value * (value - value_);
    targets_ += from_target * (target - target_);
    products_ += from_value * (target - target_);
    if (!is_one_to_one_) return;
    constexpr size_t kMost = 1000;
    const auto [to, new_value] = by_value_.emplace(value, target);
    const auto [from, new_target] = by_target_.emplace(target, value);
    is_one_to_one_ = to->second == target && from->second == value && by_value_.size() <= kMost;
  }

  bool is_one_to_one() const { return is_one_to_one_ && by_value_.size() > 1; }
  bool is_a_line() const {
    constexpr double kNone = 1e-10;  // of the variance is left unexplained: rounding of float32 alone
    return values_ > 0 && targets_ > 0 && 1 - products_ * products_ / (values_ * targets_) < kNone;
  }

 private:
  double count_ = 0, value_ = 0, target_ = 0, values_ = 0, targets_ = 0, products_ = 0;
  bool is_one_to_one_ = true;
  std::map<double, double> by_value_, by_target_;
};

// How one column of the validation data lies among the training data's.
struct Drift {
  double sum = 0, squares = 0;  // of standardised numbers
  double least = 0, most = 0;

  void add(double value, bool first) {
    sum += value, squares += value * value;
    least = first ? value : std::min(least, value), most = first ? value : std::max(most, value);
  }
  double deviation(int64_t rows) const {
    const double mean = sum / static_cast<double>(rows);
    return std::sqrt(std::max(0.0, squares / static_cast<double>(rows) - mean * mean));
  }
};

constexpr double kFarDeviations = 10, kNarrow = 0.01;

// Columns of numbers that are another thing than in the training data: in other units, or missing.
void doubt_drift(const LookRequest& request, const TableEncoding& encoding, const std::string& path,
                 DataLook& look) {
  std::vector<Drift> drifts(encoding.features.size());
  int64_t rows = 0;
  for_each_chunk(request.data, {}, [&](const Batch& batch) {
    const auto* inputs = batch.inputs.const_data_ptr<float>();
    for (int64_t i = 0; i < batch.samples; ++i, ++rows) {
      for (size_t k = 0; k < drifts.size(); ++k) {
        if (!encoding.features[k].categorical) drifts[k].add(*inputs, rows == 0);
        inputs += encoding.features[k].width();
      }
    }
  });
  for (size_t k = 0; k < drifts.size(); ++k) {
    const ColumnEncoding& column = encoding.features[k];
    const double mean = drifts[k].sum / static_cast<double>(rows);
    const double deviation = drifts[k].deviation(rows);
    const bool same = drifts[k].least == drifts[k].most;
    if (column.categorical) continue;
    const std::string place = cat(path, ": ", quote(column.name));
    if (column.survey.counted == 0) {
      if (!same || drifts[k].least != 0)
        look.doubt("columns of numbers that are missing from every row of the training data",
                   "name features to leave it out: what is made of them is chance", place);
      continue;
    }
    if (column.survey.squares == 0) {  // its weights were never learned
      if (!same || drifts[k].least != 0)
        look.doubt("columns of other numbers than the one that the training data have",
                   "name features to leave it out: what is made of them is chance",
                   cat(place, ": mean ", brief(column.mean + mean), ", the training data's ",
                       brief(column.mean), " in each row"));
      continue;
    }
    if (rows < kFewRows) continue;
    if (same && drifts[k].least == 0)
      look.doubt("columns that are missing from every row", "correct the file, or name features", place);
    else if (std::abs(mean) > kFarDeviations || (!same && deviation < kNarrow))
      look.doubt("columns whose numbers are far from the training data's, as in other units",
                 "write both in the same units",
                 cat(place, ": mean ", brief(column.mean + mean * column.deviation), ", the training data's ",
                     brief(column.mean), " (deviation ", brief(column.deviation), ")"));
  }
}

// Numbers to be predicted that are other things than in the training data.
void doubt_other_targets(const LookRequest& request, const TableEncoding& encoding, const std::string& path,
                         DataLook& look) {
  const ColumnSurvey& known = encoding.target_survey;
  if (encoding.has_classes() || request.data.size() < kFewRows || !(known.squares > 0)) return;
  Drift drift;
  bool labelled = false;
  for_each_chunk(request.data, {}, [&](const Batch& batch) {
    if (!batch.targets.defined()) return;
    const auto* const targets = batch.targets.const_data_ptr<float>();
    for (int64_t i = 0; i < batch.samples; ++i, labelled = true)
      drift.add(double{targets[i]} - known.mean, !labelled);
  });
  if (!labelled) return;
  const double deviation = std::sqrt(known.squares / known.counted),
               own = drift.deviation(request.data.size());
  const double distance = drift.sum / static_cast<double>(request.data.size());
  if (std::abs(distance) <= kFarDeviations * deviation && (own == 0 || own >= kNarrow * deviation)) return;
  look.doubt("targets that are far from the training data's, as in other units",
             "write both in the same units",
             cat(path, ": ", quote(encoding.target), ": mean ", brief(known.mean + distance), ", deviation ",
                 brief(own), "; the training data's ", brief(known.mean), ", deviation ", brief(deviation)));
}

// Classes of which a split leaves the training data no row.
void doubt_unknown_classes(const LookRequest& request, const TableEncoding& encoding, const std::string& path,
                           DataLook& look) {
  const bool tables = dynamic_cast<const ReadTable*>(request.training) != nullptr;
  const auto* const training = dynamic_cast<const Classified*>(request.training);
  if (!encoding.has_classes() || !tables || training == nullptr) return;
  const auto set_of = [](const Classified& data) {
    const std::vector<int64_t> classes = data.classes_of_samples();
    return std::set<int64_t>(classes.begin(), classes.end());
  };
  const std::set<int64_t> known = set_of(*training),
                          own = set_of(dynamic_cast<const Classified&>(request.data));
  for (const auto& [name, number] : encoding.classes) {
    if (known.contains(number) || !own.contains(number)) continue;
    look.doubt(cat("classes of the ", word_of(look.role), " data that the training data lack"),
               "let both have every class, or leave such rows out", cat(path, ": ", quote(name)));
  }
}

void find_giveaways(const LookRequest& request, const TableEncoding& encoding, const std::string& path,
                    DataLook& look) {
  std::vector<Giveaway> giveaways(encoding.features.size());
  for_each_chunk(request.data, request.options, [&](const Batch& batch) {
    const torch::Tensor targets = batch.targets.reshape({-1}).to(torch::kFloat64);
    const auto* const target = targets.const_data_ptr<double>();
    const auto* inputs = batch.inputs.const_data_ptr<float>();
    for (int64_t i = 0; i < batch.samples; ++i) {
      for (size_t k = 0; k < giveaways.size(); ++k) {
        const int64_t width = encoding.features[k].width();
        const double value = encoding.features[k].categorical
                                 ? static_cast<double>(std::max_element(inputs, inputs + width) - inputs)
                                 : *inputs;
        giveaways[k].add(value, target[i]);
        inputs += width;
      }
    }
  });
  for (size_t k = 0; k < giveaways.size() && request.data.size() >= kFewRows; ++k) {
    const bool line =
        !encoding.has_classes() && !encoding.features[k].categorical && giveaways[k].is_a_line();
    const bool names = encoding.has_classes() && giveaways[k].is_one_to_one();
    if (line || names)
      look.doubt("features that give the target away", "name features to leave it out",
                 cat(path, ": ", quote(encoding.features[k].name), ": ",
                     line ? "in a straight line with the target" : "one value for each class"));
  }
}

// The columns of a file that is not the one by which it is read.
TableEncoding surveyed(const TableEncoding& like, const TableFile& file, const MissingWords& missing_words) {
  TableEncoding own = like;
  std::vector<size_t> columns;
  for (ColumnEncoding& column : own.features) {
    columns.push_back(file.same_column(column.name, column.unnamed, "features"));
    column.survey = {};
  }
  const size_t target = file.same_column(like.target, like.unnamed_target, "target");
  own.target_survey = {.most_texts = like.target_survey.most_texts};
  file.for_each_row([&](int64_t, const TableFile::Row& row) {
    for (size_t i = 0; i < columns.size(); ++i)
      own.features[i].survey.add(file, row, columns[i], missing_words, /*counts=*/false);
    own.target_survey.add(file, row, target, missing_words, /*counts=*/false);
  });
  return own;
}

// The columns that name keys, such as of patients.
std::vector<size_t> key_columns(const TableFile& file, const std::string& target) {
  std::vector<size_t> columns;
  for (size_t i = 0; i < file.columns().size(); ++i) {
    if (file.columns()[i] != target && is_named_as_key(file.columns()[i])) columns.push_back(i);
  }
  return columns;
}

// The rows of a part by what each of these columns names.
std::map<std::string, SampleGroups> groups_of(const TablePart& part, const std::vector<size_t>& columns) {
  std::map<std::string, SampleGroups> groups;
  part.file.for_each_row([&](int64_t number, const TableFile::Row& row) {
    if (!part.wanted(number)) return;
    for (const size_t i : columns) {
      const std::string_view text = trim(row[i].text);
      if (!text.empty()) ++groups[part.file.columns()[i]][std::string(text)];
    }
  });
  return groups;
}

void doubt_unknown_categories(const TableFile& file, const TableEncoding& encoding, DataLook& look) {
  file.for_each_row([&](int64_t, const TableFile::Row& row) {
    for (const ColumnEncoding& column : encoding.features) {
      if (!column.categorical) continue;
      const size_t at = file.same_column(column.name, column.unnamed, "features");
      if (!find_category(column.categories, encoding.format.decimal, row[at], file.format().decimal))
        look.doubt("categories that the training data do not have", "correct them, or train on rows of them",
                   cat(file.place(row, at), ": ", quote(trim(row[at].text))));
    }
  });
}

}  // namespace

void doubt_shared_groups(const TablePart& own, const TablePart& training, const std::string& target,
                         DataLook& look) {
  constexpr int64_t kMostRows = 20;  // in the mean of a group: more are categories
  const std::vector<size_t> columns = key_columns(own.file, target);
  if (columns.empty()) return;
  const std::map<std::string, SampleGroups> theirs = groups_of(training, key_columns(training.file, target));
  for (const auto& [name, groups] : groups_of(own, columns)) {
    const auto known = theirs.find(name);
    if (known == theirs.end() || samples_of(known->second) > kMostRows * std::ssize(known->second)) continue;
    const int64_t shared = samples_of_known_groups(groups, known->second);
    if (shared == 0) continue;
    look.doubt(cat(word_of(look.role), " rows of groups that the training data have rows of, too"),
               "divide the file by that column, so that all rows of a group are on one side: else they show "
               "what was learned by heart",
               cat(own.file.path(), ": ", quote(name), ": ", format_count(shared), " of ",
                   format_count(samples_of(groups)), " rows"));
  }
}

void look_at_rows(const LookRequest& request, const TableFile& file, const MissingWords& missing_words,
                  DataLook& look) {
  const auto& table = dynamic_cast<const ReadTable&>(request.data);
  const TableEncoding& encoding = table.encoding();
  const bool whole = request.options.depth == LookDepth::kWhole;
  const bool part = request.made_from.parameters.text("split") != "all";
  look.what = cat("table ", table.path(), ": ", format_count(request.data.size()), " rows, ",
                  encoding.features.size(), " columns as ", encoding.width(), " numbers, target ",
                  encoding.target, ": ", encoding.task());
  const std::string separator(1, file.format().separator);
  look.facts.emplace_back("separator", separator == "\t" ? "tab" : separator);
  look.facts.emplace_back("decimal", file.format().decimal == DecimalMark::kComma ? "comma" : "point");
  doubt_header(file, request.training == nullptr ? &encoding : nullptr, look);
  if (request.training == nullptr) {
    add_target(encoding, request.data, look);
    look.tables.push_back(columns_of(encoding, part));
    const std::vector<std::string> meant = request.made_from.parameters.texts("categorical");
    for (const ColumnEncoding& column : encoding.features)
      doubt_column(encoding.path, column, std::ranges::count(meant, column.name) > 0, look);
    doubt_target(encoding.path, encoding, look);
    if (!whole) return;
    find_giveaways(request, encoding, encoding.path, look);
    return count_repeated_rows(request, look);
  }
  look.facts.emplace_back("read as", encoding.path);
  if (table.standardized()) doubt_drift(request, encoding, table.path(), look);
  doubt_other_targets(request, encoding, table.path(), look);
  if (look.role != DataRole::kPredicted) doubt_unknown_classes(request, encoding, table.path(), look);
  if (!whole) return;
  const TableEncoding own = surveyed(encoding, file, missing_words);
  add_target(own, request.data, look);
  look.tables.push_back(columns_of(own, part));
  for (const ColumnEncoding& column : own.features)
    doubt_total(table.path(), column.name, column.survey, look);
  if (!own.has_classes()) doubt_total(table.path(), own.target, own.target_survey, look);
  doubt_unknown_categories(file, encoding, look);
  if (dynamic_cast<const ReadTable*>(request.training) != nullptr) count_rows_of_training(request, look);
}

}  // namespace autotrain
