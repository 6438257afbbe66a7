#include "data/table_encoding.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "autotrain/error.h"
#include "base/text.h"
#include "base/units.h"

namespace autotrain {
namespace {

// One column for each category: beyond this, a table is not the form for the data.
constexpr size_t kMostCategories = 1000;
constexpr size_t kMostClasses = 100'000;
constexpr int64_t kMostClassesOfNumbers = 100;  // with more, whole numbers are taken for quantities
constexpr int64_t kRowsOfAClass = 10;           // with fewer, numbers are no classes for a loss of classes

Categories numbered(const std::vector<std::string>& texts) {
  Categories categories;
  for (const std::string& text : texts) categories.emplace(text, static_cast<int64_t>(categories.size()));
  return categories;
}

std::string share_of(const ColumnSurvey& survey) {
  return cat(format_count(survey.numbers), " of the column's ", format_count(survey.values()), " fields");
}

// ------------------------------------------------------------------ features

[[noreturn]] void fail_bad_cells(const FieldPlaces& bad, const std::string& why, const std::string& cure) {
  throw Error(ExitCode::kBadData, bad.first[0].where, bad.first[0].text + why + bad.counted_others(), cure);
}

std::string why_no_number(const ColumnSurvey& survey) {
  const std::string& text = survey.words.first[0].text;
  const bool comma = survey.decimal == DecimalMark::kComma;
  if (comma && text.find('.') != std::string::npos)
    return " has a point, and the file's decimals stand after commas";
  if (survey.numbers > 0) return cat(" is no number, as ", share_of(survey), " are");
  if (!comma && text.find(',') != std::string::npos)
    return " has a comma, and the file does not tell whether it stands before decimals or thousands";
  return " looks like a number, but is written as none";
}

std::string cure_of_mark(const ColumnSurvey& survey) {
  if (survey.words.count == 0) return "";
  const std::string& text = survey.words.first[0].text;
  if (survey.decimal == DecimalMark::kComma)
    return text.find('.') == std::string::npos ? "" : "; points that mark thousands must go";
  return text.find(',') == std::string::npos ? ""
                                             : "; commas that mark thousands must go, and those before "
                                               "decimals are read with decimal: comma";
}

// Whether the column is one of categories; a column that might be either is refused.
bool is_categorical(const ColumnSurvey& survey, const std::string& name, const TableOptions& options) {
  if (survey.values() == 0) return survey.missing.count + survey.quoted_words.count > survey.empty;
  if (survey.words.count == 0) return survey.numbers == 0;
  if (survey.is_mostly_numbers()) {
    if (options.bad_cells_are_missing && survey.numbers >= survey.words.count) return false;
    fail_bad_cells(survey.words, why_no_number(survey),
                   cat("correct it, or set bad_cells: missing, or categorical: [", name,
                       "] if these are categories", cure_of_mark(survey)));
  }
  if (survey.is_undecided()) {
    fail_bad_cells(survey.words,
                   cat(" is no number, and ", share_of(survey), " are: the column may be one of either"),
                   cat("set numeric: [", name, "] with bad_cells: missing, or categorical: [", name, "]"));
  }
  return true;
}

ColumnEncoding number_column(const ColumnSurvey& survey, const std::string& name,
                             const TableOptions& options) {
  if (survey.words.count > 0 && !options.bad_cells_are_missing) {
    fail_bad_cells(survey.words, cat(" is no number, as the column's fields are to be"),
                   "correct it, or set bad_cells: missing, or take the column from numeric");
  }
  ColumnEncoding column{.name = name, .mean = survey.mean};
  const double deviation = survey.counted > 0 ? std::sqrt(survey.squares / survey.counted) : 0;
  if (deviation > 0) column.deviation = deviation;
  return column;
}

ColumnEncoding category_column(const ColumnSurvey& survey, const std::string& name, bool chosen) {
  if (survey.too_many_texts) {
    const bool word = !chosen && survey.words.count > 0;
    throw Error(ExitCode::kBadData, word ? survey.words.first[0].where : "table: categorical",
                cat(word ? survey.words.first[0].text + " is no number, which makes " : "", "the column ",
                    quote(name), word ? " categorical, and it has" : " has", " more than ", kMostCategories,
                    " categories"),
                "correct the field if it should be a number, or leave the column out of features");
  }
  std::vector<std::string> texts;
  for (const auto& [text, count] : survey.texts) texts.push_back(text);
  std::ranges::sort(texts);
  return {.name = name, .categorical = true, .categories = numbered(texts)};
}

std::vector<size_t> feature_columns(const TableFile& file, const TableOptions& options, size_t target) {
  std::vector<size_t> columns;
  for (const std::string& name : options.features) columns.push_back(file.column(name, "features"));
  std::set<size_t> others = {target};
  if (!options.weight_column.empty()) others.insert(file.column(options.weight_column, "weight_column"));
  if (!options.weight_column.empty() && others.size() < 2)
    throw Error(ExitCode::kBadRecipe, "table: weight_column", "names the target", "name a column of weights");
  for (size_t i = 0; options.features.empty() && i < file.columns().size(); ++i) {
    if (!others.contains(i)) columns.push_back(i);
  }
  const std::set<size_t> different(columns.begin(), columns.end());
  if (different.contains(target) || different.size() < columns.size()) {
    throw Error(ExitCode::kBadRecipe, "table: features",
                different.contains(target) ? "names the target" : "names a column twice", "remove it there");
  }
  if (columns.empty()) {
    throw Error(ExitCode::kBadData, file.path(), "has no column beside the target",
                "check the separator, which may be set");
  }
  return columns;
}

// The columns that a key names, which must be features.
std::set<size_t> chosen_columns(const TableFile& file, const std::vector<std::string>& names,
                                const std::vector<size_t>& features, const std::string& key) {
  std::set<size_t> columns;
  for (const std::string& name : names) {
    const size_t column = file.column(name, key);
    columns.insert(column);
    if (std::find(features.begin(), features.end(), column) != features.end()) continue;
    throw Error(ExitCode::kBadRecipe, "table: " + key, quote(name) + " is not one of the features",
                "remove it there; task says what the target is");
  }
  return columns;
}

// ------------------------------------------------------------------ target

void check_target_is_there(const ColumnSurvey& survey) {
  if (survey.missing.count == 0) return;
  const FieldPlace& first = survey.missing.first[0];
  const bool word = first.text != kEmptyText;
  throw Error(ExitCode::kBadData, first.where,
              cat("the target is missing", word ? " (" + first.text + ")" : "", " in ",
                  format_count(survey.missing.count), " of ", format_count(survey.rows), " rows",
                  survey.missing.count > 1 ? ", " + survey.missing.others() : ""),
              cat("remove ", survey.missing.count == 1 ? "the row" : "these rows",
                  word ? ", or set missing_words: [] if that is a class, or quote it in the file" : ""));
}

void check_target_has_values(const ColumnSurvey& survey) {
  if (survey.sheet_errors.count == 0) return;
  throw Error(
      ExitCode::kBadData, survey.sheet_errors.first[0].where,
      cat("the target ", survey.sheet_errors.first[0].text,
          " is what a spreadsheet writes where a formula has no value", survey.sheet_errors.counted_others()),
      "correct it in the spreadsheet, or remove the row, or quote it in the file if it is a class");
}

void check_target_is_numbers(const ColumnSurvey& survey, const std::string& cure) {
  const FieldPlaces& bad = survey.words.count > 0 ? survey.words : survey.quoted_words;
  if (bad.count > 0) fail_bad_cells(bad, " is no number to be predicted", cure + cure_of_mark(survey));
}

// Whether classes or numbers are to be predicted, and why.
struct Task {
  bool classes = false;
  std::string reason = {};
};

int64_t different_texts(const ColumnSurvey& survey) {
  return static_cast<int64_t>(survey.texts.size()) + (survey.too_many_texts ? 1 : 0);
}

Task task_of_numbers(const ColumnSurvey& survey, const TableOptions& options, const std::string& target) {
  const bool soft = !survey.whole && survey.least >= 0 && survey.most <= 1;
  if (options.targets.kind == TargetUse::Kind::kLabels && soft)
    return {false, "the loss is for labels, and they lie from 0 to 1"};
  const int64_t different = different_texts(survey);
  if (options.targets.kind == TargetUse::Kind::kUnknown) {
    const bool few = different <= kMostClassesOfNumbers;
    if (survey.whole && few) return {true, cat("all are whole, ", different, " different ones")};
    return {false, survey.whole ? cat("more than ", kMostClassesOfNumbers, " different numbers")
                                : "they are not whole"};
  }
  const bool few = different <= kMostClassesOfNumbers || different * kRowsOfAClass <= survey.rows;
  if ((survey.whole && few) || different * kRowsOfAClass <= survey.rows)
    return {true, "the loss is for classes"};
  throw Error(ExitCode::kBadRecipe, "table: target",
              cat(quote(target), " has ", survey.too_many_texts ? "more than " : "", format_count(different),
                  " different numbers", survey.whole ? "" : ", not whole ones",
                  ": numbers to be predicted, it seems, and the loss is for classes"),
              "set loss.name: mean_squared_error, or task: classification if each is a class");
}

Task find_task(const ColumnSurvey& survey, const TableOptions& options, const std::string& target) {
  const bool loss_of_classes =
      options.targets.kind == TargetUse::Kind::kClasses || options.targets.kind == TargetUse::Kind::kLabels;
  if (options.task == "classification") return {true, "task: classification"};
  if (options.task == "regression") {
    if (options.targets.kind == TargetUse::Kind::kClasses) {
      throw Error(ExitCode::kBadRecipe, "table: task", "is regression, and the loss is for classes",
                  "set loss.name: mean_squared_error, or task: classification");
    }
    check_target_is_numbers(survey, "correct the field, or set task: classification");
    return {false, "task: regression"};
  }
  if (options.targets.kind == TargetUse::Kind::kNumbers) {
    check_target_is_numbers(survey,
                            "correct the field, or remove the row; for classes set loss.name: cross_entropy");
    return {false, "the loss is for numbers"};
  }
  const FieldPlaces& words = survey.words;
  if (words.count == 0 && survey.quoted_words.count == 0) return task_of_numbers(survey, options, target);
  if (words.count > 0 && (survey.is_mostly_numbers() || survey.is_undecided())) {
    fail_bad_cells(words, why_no_number(survey),
                   cat("correct it, or set task: classification if these are classes", cure_of_mark(survey)));
  }
  return {true, loss_of_classes ? "the loss is for classes" : "not all fields are numbers"};
}

bool is_ignored(const std::string& text, DecimalMark decimal, const TableOptions& options) {
  if (!options.targets.ignored) return false;
  const auto number = field_number(text, decimal);
  return number && *number == static_cast<double>(*options.targets.ignored);
}

// Numbers in their order, then words in theirs.
Categories classes_of(const ColumnSurvey& survey, const TableOptions& options, const std::string& target) {
  if (survey.too_many_texts) {
    throw Error(ExitCode::kBadData, "table: target",
                cat("the column ", quote(target), " has more than ", kMostClasses, " classes"),
                "set task: regression for numbers to be predicted");
  }
  constexpr double kLast = std::numeric_limits<double>::infinity();
  std::vector<std::pair<double, std::string>> keyed;
  for (const auto& [text, count] : survey.texts) {
    if (!is_ignored(text, survey.decimal, options))
      keyed.emplace_back(field_number(text, survey.decimal).value_or(kLast), text);
  }
  std::sort(keyed.begin(), keyed.end());
  std::vector<std::string> names;
  for (auto& [number, text] : keyed) names.push_back(std::move(text));
  if (names.size() < 2) {
    throw Error(ExitCode::kBadData, "table: target",
                cat("the column ", quote(target), " has ", names.empty() ? "no class" : "one class only, ",
                    names.empty() ? "" : quote(names[0]), ": there is nothing to learn"),
                "give rows of several classes, or name another target");
  }
  return numbered(names);
}

// The loss knows the ignored target by its number, which no class may have.
void check_ignored(const Categories& classes, const TableOptions& options) {
  if (!options.targets.ignored || *options.targets.ignored < 0 ||
      *options.targets.ignored >= std::ssize(classes))
    return;
  const auto meant = std::ranges::find_if(
      classes, [&](const auto& item) { return item.second == *options.targets.ignored; });
  throw Error(ExitCode::kBadRecipe, "loss.ignore_index",
              cat(*options.targets.ignored, " is the number of the class ", quote(meant->first),
                  ", since classes are numbered from 0 in their order"),
              "write -1 for targets that are not to count, and set loss.ignore_index: -1");
}

// Labels are 0 or 1, as numbers or as the first and second of two classes.
void check_labels(const TableEncoding& encoding) {
  const ColumnSurvey& survey = encoding.target_survey;
  if (encoding.form == TargetForm::kLabel && encoding.classes.size() != 2) {
    throw Error(ExitCode::kBadRecipe, "table: target",
                cat(quote(encoding.target), " has ", encoding.classes.size(),
                    " classes, and the loss is for a label that holds or not"),
                "set loss.name: cross_entropy");
  }
  if (encoding.form == TargetForm::kNumber && (survey.least < 0 || survey.most > 1)) {
    throw Error(ExitCode::kBadRecipe, "table: target",
                cat(quote(encoding.target), " has numbers from ", brief(survey.least), " to ",
                    brief(survey.most), ", and the loss is for labels from 0 to 1"),
                "set loss.name: mean_squared_error, or cross_entropy for classes");
  }
}

void decide_target(TableEncoding& encoding, const TableOptions& options) {
  check_target_is_there(encoding.target_survey);
  check_target_has_values(encoding.target_survey);
  const Task task = find_task(encoding.target_survey, options, encoding.target);
  const bool labels = options.targets.kind == TargetUse::Kind::kLabels;
  encoding.reason = task.reason;
  encoding.form = !task.classes ? TargetForm::kNumber : labels ? TargetForm::kLabel : TargetForm::kClass;
  if (task.classes) encoding.classes = classes_of(encoding.target_survey, options, encoding.target);
  if (task.classes) check_ignored(encoding.classes, options);
  if (labels) check_labels(encoding);
}

// The number that a text is, unless it is written as codes are.
std::optional<double> plain_number(std::string_view text, DecimalMark decimal) {
  if (has_leading_zeros(text) || text.find_first_of("eE+") != std::string_view::npos) return std::nullopt;
  return field_number(text, decimal);
}

// pandas writes True, R and spreadsheets TRUE, databases true.
bool is_truth(std::string_view text) {
  const std::string word = lower(text);
  return word == "true" || word == "false";
}

}  // namespace

std::optional<int64_t> find_category(const Categories& categories, DecimalMark of_names,
                                     const CsvField& field, DecimalMark of_field) {
  const std::string_view text = word_of(field);
  if (const auto found = categories.find(text); found != categories.end()) return found->second;
  const auto number = field.quoted ? std::nullopt : plain_number(text, of_field);
  const bool truth = is_truth(text);
  if (!number && !truth) return std::nullopt;
  std::optional<int64_t> only;
  for (const auto& [name, index] : categories) {
    const bool same = truth ? lower(name) == lower(text) : plain_number(name, of_names) == number;
    if (!same) continue;
    if (only) return std::nullopt;
    only = index;
  }
  return only;
}

int64_t TableEncoding::width() const {
  int64_t width = 0;
  for (const ColumnEncoding& column : features) width += column.width();
  return width;
}

std::string TableEncoding::task() const {
  if (form == TargetForm::kNumber) return "regression";
  std::string words = cat("classification, ", classes.size(), " classes");
  if (form == TargetForm::kClass) return words;
  const auto holds = std::ranges::find(classes, 1, &Categories::value_type::second);
  return cat(words, ", of which ", quote(holds->first), " is 1");
}

TableEncoding find_encoding(const TableFile& file, const TableOptions& options,
                            const std::function<bool(int64_t row)>& counts) {
  const size_t target = file.column(options.target, "target");
  const std::vector<size_t> columns = feature_columns(file, options, target);
  const std::set<size_t> categorical = chosen_columns(file, options.categorical, columns, "categorical");
  const std::set<size_t> numeric = chosen_columns(file, options.numeric, columns, "numeric");
  const MissingWords missing_words(options.missing_words);

  std::vector<ColumnSurvey> surveys(columns.size());
  TableEncoding encoding{.path = file.path(),
                         .format = file.format(),
                         .columns = std::ssize(file.columns()),
                         .target = file.columns()[target],
                         .unnamed_target = file.is_unnamed(target)};
  encoding.target_survey.most_texts = kMostClasses;
  file.for_each_row([&](int64_t number, const TableFile::Row& row) {
    const bool counted = counts(number);
    for (size_t i = 0; i < columns.size(); ++i) surveys[i].add(file, row, columns[i], missing_words, counted);
    encoding.target_survey.add(file, row, target, missing_words, counted);
  });

  if (encoding.target_survey.rows == 0) throw Error(ExitCode::kBadData, file.path(), "has no rows");
  decide_target(encoding, options);
  for (size_t i = 0; i < columns.size(); ++i) {
    const std::string& name = file.columns()[columns[i]];
    const bool chosen = categorical.contains(columns[i]), number = numeric.contains(columns[i]);
    const bool named = !file.is_unnamed(columns[i]) || !options.features.empty() || chosen || number;
    if (!named && surveys[i].values() == 0 && surveys[i].empty == surveys[i].rows) {
      encoding.left_out.push_back(name);  // a separator at the end of each line
      continue;
    }
    if (chosen && number) {
      throw Error(ExitCode::kBadRecipe, "table: numeric", quote(name) + " is in categorical, too",
                  "remove it in one of them");
    }
    const bool words = chosen || (!number && is_categorical(surveys[i], name, options));
    ColumnEncoding& column = encoding.features.emplace_back(words ? category_column(surveys[i], name, chosen)
                                                                  : number_column(surveys[i], name, options));
    column.survey = std::move(surveys[i]);
    column.unnamed = file.is_unnamed(columns[i]);
  }
  return encoding;
}

}  // namespace autotrain
