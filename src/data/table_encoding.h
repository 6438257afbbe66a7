#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/table_file.h"

namespace autotrain {

enum class MissingPolicy { kFail, kMean, kZero };

/// How fields of a table become numbers, as the user asks for it.
struct TableOptions {
  std::string target = {};
  std::string task = "auto";               ///< or "classification", "regression"
  std::vector<std::string> features = {};  ///< none: all but the target
  std::vector<std::string> categorical = {};
  MissingPolicy missing = MissingPolicy::kFail;
  bool standardize = true;
};

/// Numbers of the texts of a categorical column, or of the classes of a target, from 0 in their order.
using Categories = std::map<std::string, int64_t, std::less<>>;

/// How the fields of one column become numbers.
struct ColumnEncoding {
  std::string name = {};
  bool categorical = false;
  Categories categories = {};  ///< "" is that of missing fields
  double mean = 0;             ///< of the numbers that are there
  double deviation = 1;        ///< their standard deviation; 1 where that is 0

  /// Numbers that a field becomes.
  int64_t width() const { return categorical ? static_cast<int64_t>(categories.size()) : 1; }
};

/// How the rows of a table become samples. Made from the training file and used for every file of the run.
struct TableEncoding {
  std::vector<ColumnEncoding> features = {};
  std::string target = {};
  bool classification = false;
  Categories classes = {};

  /// Numbers that a row becomes.
  int64_t width() const;
};

/// Looks through `file`: which columns are categorical, their categories and the classes over all rows; mean
/// and deviation over the rows for which `counts(row number)`.
/// @throws Error(kBadRecipe) for columns that are not there, Error(kBadData) with line and column.
TableEncoding find_encoding(const TableFile& file, const TableOptions& options,
                            const std::function<bool(int64_t row)>& counts);

/// The number that a field is, blanks around it left out: nothing if it is none that float32 holds.
std::optional<double> field_number(std::string_view text);

/// Whether nothing is there: an empty field, NA, NaN, null, in any case.
bool is_missing(std::string_view text);

/// What a class is known by: 1 and 1.0 are the same.
std::string class_name(std::string_view text);

}  // namespace autotrain
