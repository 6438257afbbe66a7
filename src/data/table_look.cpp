#include "data/table_look.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "base/text.h"
#include "base/units.h"
#include "data/batches.h"
#include "data/file_names.h"

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

// Of the most frequent, with how often they are there.
std::vector<std::pair<std::string, int64_t>> commonest(const ColumnSurvey& survey, size_t most) {
  std::vector<std::pair<std::string, int64_t>> counts(survey.texts.begin(), survey.texts.end());
  std::ranges::sort(counts, [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
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

LookTable columns_of(const TableEncoding& encoding) {
  LookTable table{.title = "columns",
                  .header = {"column", "type", "missing", "different", "values", "example"}};
  for (const ColumnEncoding& column : encoding.features)
    add_column(table, column.name, column.categorical ? "categories" : "numbers", column.survey,
               column.categorical);
  add_column(table, encoding.target, encoding.has_classes() ? "target: classes" : "target: number",
             encoding.target_survey, encoding.has_classes());
  return table;
}

void add_target(const TableEncoding& encoding, DataLook& look) {
  look.facts.emplace_back("target", cat(encoding.target, ": ", encoding.task(), ", since ", encoding.reason));
  if (!encoding.has_classes()) return;
  const ColumnSurvey& survey = encoding.target_survey;
  LookBars bars{.title = "rows by class"};
  for (const auto& [name, count] : commonest(survey, kBars)) {
    bars.labels.push_back(name);
    bars.counts.push_back(count);
  }
  if (survey.texts.size() > kBars) bars.title += cat(", the largest ", kBars, " of ", survey.texts.size());
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

// Whether texts are dates: 2024-03-01, 1.3.24, 2024/03/01 12:30.
bool is_date(std::string_view text) {
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

// Whether a column's name says that its values name the rows.
bool is_named_as_key(const std::string& name) {
  const std::string word = lower(name);
  return word == "id" || word == "uuid" || word == "key" || word == "index" || word.ends_with("_id") ||
         word.ends_with(" id") || word.ends_with("-id") || name.ends_with("Id") || name.ends_with("ID");
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

void doubt_column(const std::string& path, const ColumnEncoding& column, DataLook& look) {
  const ColumnSurvey& s = column.survey;
  const std::string place = cat(path, ": ", quote(column.name));
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
  if (different(s) > 1 && 10 * dates >= 9 * different(s)) {
    look.doubt("columns of dates, taken as categories",
               "make numbers of them, such as days since the first; or name features to leave it out",
               cat(place, ": ", quote(example_of(s))));
  } else if (different(s) > kManyWords && are_numbers_with_units(s)) {
    look.doubt("columns of numbers with units, taken as categories", "take the units out of the file",
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
}

void doubt_target(const std::string& path, const TableEncoding& encoding, DataLook& look) {
  const ColumnSurvey& s = encoding.target_survey;
  const auto stand_in = s.words.count == 0 ? s.ends.stand_in(encoding.has_classes()) : std::nullopt;
  if (stand_in) {
    look.doubt("targets that may stand for what is missing", "remove the rows if they do",
               cat(path, ": ", quote(encoding.target), ": ", shortest(*stand_in), ", far from all others"));
  }
  if (!encoding.has_classes()) {
    if (s.rows > 1 && s.numbers > 0 && s.least == s.most)
      look.doubt("targets that are all the same", "name another target",
                 cat(path, ": ", quote(encoding.target), ": ", brief(s.least)));
    return;
  }
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

uint64_t hash_of(const Batch& batch, int64_t row) {
  const auto bytes_of = [&](const torch::Tensor& all) {
    const size_t bytes = all.nbytes() / static_cast<size_t>(all.size(0));
    return std::string_view(static_cast<const char*>(all.const_data_ptr()) + bytes * static_cast<size_t>(row),
                            bytes);
  };
  const std::hash<std::string_view> hash;
  return hash(bytes_of(batch.inputs)) * 31 + hash(bytes_of(batch.targets));
}

std::vector<uint64_t> sorted_hashes(const Dataset& data, const LookOptions& options) {
  std::vector<uint64_t> hashes;
  for_each_chunk(data, options, [&](const Batch& batch) {
    for (int64_t i = 0; i < batch.samples; ++i) hashes.push_back(hash_of(batch, i));
  });
  std::ranges::sort(hashes);
  return hashes;
}

void count_rows_of_training(const LookRequest& request, DataLook& look) {
  const std::vector<uint64_t> training = sorted_hashes(*request.training, request.options);
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
  const std::vector<uint64_t> hashes = sorted_hashes(request.data, request.options);
  int64_t repeated = 0;
  for (size_t i = 1; i < hashes.size(); ++i) repeated += hashes[i] == hashes[i - 1] ? 1 : 0;
  look.facts.emplace_back("rows that repeat another", format_count(repeated));
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
    const double deviation =
        std::sqrt(std::max(0.0, drifts[k].squares / static_cast<double>(rows) - mean * mean));
    const bool same = drifts[k].least == drifts[k].most;
    if (column.categorical) continue;
    const std::string place = cat(path, ": ", quote(column.name));
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

void look_at_rows(const LookRequest& request, const TableFile& file, const MissingWords& missing_words,
                  DataLook& look) {
  const auto& table = dynamic_cast<const ReadTable&>(request.data);
  const TableEncoding& encoding = table.encoding();
  const bool whole = request.options.depth == LookDepth::kWhole;
  look.what = cat("table ", table.path(), ": ", format_count(request.data.size()), " rows, ",
                  encoding.features.size(), " columns as ", encoding.width(), " numbers, target ",
                  encoding.target, ": ", encoding.task());
  const std::string separator(1, file.format().separator);
  look.facts.emplace_back("separator", separator == "\t" ? "tab" : separator);
  look.facts.emplace_back("decimal", file.format().decimal == DecimalMark::kComma ? "comma" : "point");
  doubt_header(file, request.training == nullptr ? &encoding : nullptr, look);
  if (request.training == nullptr) {
    add_target(encoding, look);
    look.tables.push_back(columns_of(encoding));
    for (const ColumnEncoding& column : encoding.features) doubt_column(encoding.path, column, look);
    doubt_target(encoding.path, encoding, look);
    if (!whole) return;
    find_giveaways(request, encoding, encoding.path, look);
    return count_repeated_rows(request, look);
  }
  look.facts.emplace_back("read as", encoding.path);
  if (table.standardized()) doubt_drift(request, encoding, table.path(), look);
  if (!whole) return;
  const TableEncoding own = surveyed(encoding, file, missing_words);
  add_target(own, look);
  look.tables.push_back(columns_of(own));
  doubt_unknown_categories(file, encoding, look);
  if (dynamic_cast<const ReadTable*>(request.training) != nullptr) count_rows_of_training(request, look);
}

}  // namespace autotrain
