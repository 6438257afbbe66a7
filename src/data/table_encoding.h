#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/table_file.h"
#include "data/table_survey.h"
#include "data/target_use.h"

namespace autotrain {

enum class MissingPolicy { kFail, kMean, kZero };

/// How fields of a table become numbers, as the user asks for it.
struct TableOptions {
  std::string target = {};
  std::string task = "auto";               ///< or "classification", "regression"
  std::string weight_column = {};          ///< of what rows count; no feature unless it is named as one
  std::vector<std::string> features = {};  ///< none: all but the target and the weights
  std::vector<std::string> categorical = {};
  std::vector<std::string> numeric = {};
  MissingPolicy missing = MissingPolicy::kFail;
  std::vector<std::string> missing_words = MissingWords::usual();
  bool bad_cells_are_missing = false;  ///< fields that are no numbers, in a column of numbers
  bool standardize = true;
  TargetUse targets = {};
};

/// Numbers of the texts of a categorical column, or of the classes of a target, from 0 in their order.
using Categories = std::map<std::string, int64_t, std::less<>>;

/// The number of a text; failing that, of the only one that is the same as programs write it: 2.0 for 2, in a
/// column with gaps, and TRUE for True. Codes ("02", "2E0") and quoted fields are no other number. Nothing
/// where there is none. @param of_names before the decimals of the categories. @param of_field of the field.
std::optional<int64_t> find_category(const Categories& categories, DecimalMark of_names,
                                     const CsvField& field, DecimalMark of_field);

/// How the fields of one column become numbers.
struct ColumnEncoding {
  std::string name = {};
  bool categorical = false;
  Categories categories = {};  ///< "" is that of missing fields
  double mean = 0;             ///< of the numbers that are there
  double deviation = 1;        ///< their standard deviation; 1 where that is 0
  ColumnSurvey survey = {};    ///< of the training file
  bool unnamed = false;        ///< the header has no name for it

  /// Numbers that a field becomes.
  int64_t width() const { return categorical ? static_cast<int64_t>(categories.size()) : 1; }
};

enum class TargetForm {
  kClass,   ///< the number of a class
  kLabel,   ///< 0 or 1, for a loss of labels
  kNumber,  ///< a number to be predicted
};

/// How the rows of a table become samples. Made from the training file and used for every file of the run.
struct TableEncoding {
  std::string path = {};  ///< of the training file
  TableFormat format = {};
  int64_t columns = 0;  ///< of the file
  std::vector<ColumnEncoding> features = {};
  std::vector<std::string> left_out = {};  ///< columns without a name and without a value
  std::string target = {};
  bool unnamed_target = false;  ///< the header has no name for it
  TargetForm form = TargetForm::kNumber;
  std::string reason = {};  ///< of the form: "the loss is for numbers"
  Categories classes = {};
  ColumnSurvey target_survey = {};

  /// Numbers that a row becomes.
  int64_t width() const;

  bool has_classes() const { return form != TargetForm::kNumber; }

  /// "regression", "classification, 3 classes", of labels "classification, 2 classes, of which "yes" is 1".
  std::string task() const;
};

/// Looks through `file`: which columns are categorical, their categories and the classes over all rows; mean
/// and deviation over the rows for which `counts(row number)`.
/// @throws Error(kBadRecipe) for columns that are not there and a task that does not go with the loss,
/// Error(kBadData) with line and column for fields that may be meant in two ways.
TableEncoding find_encoding(const TableFile& file, const TableOptions& options,
                            const std::function<bool(int64_t row)>& counts);

}  // namespace autotrain
