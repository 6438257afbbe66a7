#include "data/table_encoding.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "autotrain/error.h"
#include "base/text.h"

namespace autotrain {
namespace {

// One column for each category: beyond this, a table is not the form for the data.
constexpr size_t kMostCategories = 1000;
constexpr size_t kMostClasses = 100'000;
constexpr size_t kMostClassesOfNumbers = 100;  // with more, whole numbers are taken for quantities

// The kind of a column's values.
struct Survey {
  size_t most_texts = kMostCategories;
  std::set<std::string, std::less<>> texts = {};  // different ones, at most one more than `most_texts`
  std::string word_at = {};                       // where the first is that is no number
  std::string word = {};
  bool whole = true;  // all numbers are integers

  // Mean and sum of squared deviations of the numbers, updated one by one (Welford 1962).
  double numbers = 0, mean = 0, squares = 0;

  void add_text(std::string_view text) {
    if (texts.size() <= most_texts && !texts.contains(text)) texts.emplace(text);
  }

  void add_number(double number) {
    numbers += 1;
    const double distance = number - mean;
    mean += distance / numbers;
    squares += distance * (number - mean);
  }
};

void survey_feature(Survey& survey, const TableFile& file, const TableFile::Row& row, size_t column,
                    bool counts) {
  const std::string_view text = trim(row[column].text);
  if (is_missing(text)) return survey.add_text("");
  survey.add_text(text);
  const auto number = field_number(text);
  if (number && counts) survey.add_number(*number);
  if (!number && survey.word_at.empty()) survey.word_at = file.place(row, column), survey.word = text;
}

void survey_target(Survey& survey, const TableFile& file, const TableFile::Row& row, size_t column) {
  const std::string_view text = trim(row[column].text);
  if (is_missing(text)) {
    throw Error(ExitCode::kBadData, file.place(row, column), "the target is missing", "remove the row");
  }
  survey.add_text(class_name(text));
  const auto number = field_number(text);
  if (number && *number != std::floor(*number)) survey.whole = false;
  if (!number && survey.word_at.empty()) survey.word_at = file.place(row, column), survey.word = text;
}

Categories numbered(const std::vector<std::string>& texts) {
  Categories categories;
  for (const std::string& text : texts) categories.emplace(text, static_cast<int64_t>(categories.size()));
  return categories;
}

ColumnEncoding encoding_of(const Survey& survey, const std::string& name, bool categorical) {
  ColumnEncoding column{.name = name, .categorical = categorical || !survey.word_at.empty()};
  if (!column.categorical) {
    column.mean = survey.mean;
    const double deviation = survey.numbers > 0 ? std::sqrt(survey.squares / survey.numbers) : 0;
    if (deviation > 0) column.deviation = deviation;
    return column;
  }
  if (survey.texts.size() > kMostCategories) {
    throw Error(ExitCode::kBadData, categorical ? "table: categorical" : survey.word_at,
                cat(categorical ? "" : cat(quote(survey.word), " is no number, which makes "), "the column ",
                    quote(name), categorical ? " has" : " categorical, and it has", " more than ",
                    kMostCategories, " categories"),
                "correct the field if it should be a number, or leave the column out of features");
  }
  column.categories = numbered({survey.texts.begin(), survey.texts.end()});
  return column;
}

bool is_classification(const Survey& survey, const std::string& task) {
  if (task == "classification") return true;
  if (task == "auto") {
    return !survey.word_at.empty() || (survey.whole && survey.texts.size() <= kMostClassesOfNumbers);
  }
  if (survey.word_at.empty()) return false;
  throw Error(ExitCode::kBadData, survey.word_at, quote(survey.word) + " is no number to be predicted",
              "correct the field, or set task: classification");
}

// Numbers in their order, then words in theirs.
Categories classes_of(const Survey& survey, const std::string& target) {
  if (survey.texts.size() > kMostClasses) {
    throw Error(ExitCode::kBadData, "table: target",
                cat("the column ", quote(target), " has more than ", kMostClasses, " classes"),
                "set task: regression for numbers to be predicted");
  }
  constexpr double kLast = std::numeric_limits<double>::infinity();
  std::vector<std::pair<double, std::string>> keyed;
  for (const std::string& text : survey.texts) keyed.emplace_back(field_number(text).value_or(kLast), text);
  std::sort(keyed.begin(), keyed.end());
  std::vector<std::string> names;
  for (auto& [number, text] : keyed) names.push_back(std::move(text));
  return numbered(names);
}

std::vector<size_t> feature_columns(const TableFile& file, const TableOptions& options, size_t target) {
  std::vector<size_t> columns;
  for (const std::string& name : options.features) columns.push_back(file.column(name, "features"));
  for (size_t i = 0; options.features.empty() && i < file.columns().size(); ++i) {
    if (i != target) columns.push_back(i);
  }
  const std::set<size_t> different(columns.begin(), columns.end());
  if (different.contains(target) || different.size() < columns.size()) {
    throw Error(ExitCode::kBadRecipe, "table: features",
                different.contains(target) ? "names the target" : "names a column twice", "remove it there");
  }
  if (columns.empty()) {
    throw Error(ExitCode::kBadData, file.path(), "has no column beside the target", "check the separator");
  }
  return columns;
}

std::set<size_t> categorical_columns(const TableFile& file, const TableOptions& options,
                                     const std::vector<size_t>& features) {
  std::set<size_t> columns;
  for (const std::string& name : options.categorical) {
    const size_t column = file.column(name, "categorical");
    columns.insert(column);
    if (std::find(features.begin(), features.end(), column) != features.end()) continue;
    throw Error(ExitCode::kBadRecipe, "table: categorical", quote(name) + " is not one of the features",
                "remove it there; task: classification makes the target one of classes");
  }
  return columns;
}

}  // namespace

int64_t TableEncoding::width() const {
  int64_t width = 0;
  for (const ColumnEncoding& column : features) width += column.width();
  return width;
}

TableEncoding find_encoding(const TableFile& file, const TableOptions& options,
                            const std::function<bool(int64_t row)>& counts) {
  const size_t target = file.column(options.target, "target");
  const std::vector<size_t> columns = feature_columns(file, options, target);
  const std::set<size_t> categorical = categorical_columns(file, options, columns);

  std::vector<Survey> surveys(columns.size());
  Survey target_survey{.most_texts = kMostClasses};
  file.for_each_row([&](int64_t number, const TableFile::Row& row) {
    const bool counted = counts(number);
    for (size_t i = 0; i < columns.size(); ++i) survey_feature(surveys[i], file, row, columns[i], counted);
    survey_target(target_survey, file, row, target);
  });

  TableEncoding encoding{.target = file.columns()[target],
                         .classification = is_classification(target_survey, options.task)};
  for (size_t i = 0; i < columns.size(); ++i) {
    const std::string& name = file.columns()[columns[i]];
    encoding.features.push_back(encoding_of(surveys[i], name, categorical.contains(columns[i])));
  }
  if (encoding.classification) encoding.classes = classes_of(target_survey, encoding.target);
  return encoding;
}

std::optional<double> field_number(std::string_view text) {
  double number = 0;
  if (!parse_real(trim(text), number)) return std::nullopt;
  if (!(std::abs(number) <= double{std::numeric_limits<float>::max()})) return std::nullopt;
  return number;
}

bool is_missing(std::string_view text) {
  text = trim(text);
  constexpr size_t kLongest = 4;
  if (text.empty()) return true;
  if (text.size() > kLongest) return false;
  const std::string word = lower(text);
  return word == "na" || word == "nan" || word == "null";
}

std::string class_name(std::string_view text) {
  const auto number = field_number(text);
  return number ? shortest(*number == 0 ? 0 : *number) : std::string(trim(text));
}

}  // namespace autotrain
