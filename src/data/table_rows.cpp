#include "data/table_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "autotrain/error.h"
#include "base/text.h"

namespace autotrain {

RowEncoder::RowEncoder(const TableFile& file, const TableEncoding& encoding, const TableOptions& options,
                       bool labelled)
    : file_(file), encoding_(encoding), options_(options), missing_words_(options.missing_words), target_(0) {
  check_places(labelled);
  if (labelled) target_ = file.same_column(encoding.target, encoding.unnamed_target, "target");
  for (const ColumnEncoding& column : encoding.features)
    columns_.push_back(file.same_column(column.name, column.unnamed, "features"));
}

// Without a header columns are told apart by their places alone.
void RowEncoder::check_places(bool labelled) const {
  if (file_.format().header) return;
  const auto columns = std::ssize(file_.columns());
  const bool lacks_target =
      !labelled && columns + 1 == encoding_.columns && encoding_.target == std::to_string(encoding_.columns);
  if (columns == encoding_.columns || lacks_target) return;
  throw Error(
      ExitCode::kBadData, file_.path(),
      cat("has ", columns, columns == 1 ? " column" : " columns", ", and the training file ",
          encoding_.columns, ": without a header columns are known by their places"),
      "give both files the same columns, or a header; the target may be left out where it is the last");
}

void RowEncoder::write_features(const TableFile::Row& row, float* out) {
  for (size_t i = 0; i < columns_.size(); ++i) {
    const ColumnEncoding& column = encoding_.features[i];
    if (column.categorical)
      write_category(column, row, columns_[i], out);
    else
      *out = static_cast<float>(scaled(column, row, columns_[i]));
    out += column.width();
  }
}

int64_t RowEncoder::class_of(const TableFile::Row& row) {
  const CsvField& field = row[target_];
  const auto number =
      options_.targets.ignored ? field_number(field.text, file_.format().decimal) : std::nullopt;
  if (number && *number == static_cast<double>(*options_.targets.ignored)) return *options_.targets.ignored;
  if (const auto found = category_of(encoding_.classes, field)) return *found;
  if (is_missing(field))
    refuse(row, target_, "the target is missing", "remove the row, or quote the field if it is a class");
  else
    refuse(row, target_, cat("the class ", quote(trim(field.text)), " is not in the training file"),
           "correct the field, or let both files have every class");
  return 0;
}

float RowEncoder::quantity_of(const TableFile::Row& row) {
  const std::string_view text = row[target_].text;
  if (const auto number = number_in(row[target_])) {
    const bool label = options_.targets.kind == TargetUse::Kind::kLabels;
    if (label && (*number < 0 || *number > 1))
      refuse(row, target_, quote(trim(text)) + " is no label, which is from 0 to 1 for this loss",
             "correct the field: parts of a hundred are divided by 100");
    return static_cast<float>(*number);
  }
  if (is_missing(row[target_]))
    refuse(row, target_, "the target is missing", "remove the row");
  else
    refuse(row, target_, quote(trim(text)) + " is no number to be predicted", "correct the field");
  return 0;
}

double RowEncoder::weight_of(const TableFile::Row& row, size_t column) {
  const auto number = number_in(row[column]);
  if (number && *number >= 0) return *number;
  refuse(row, column, quote(trim(row[column].text)) + " is no weight, which is a number from 0 on",
         "correct the field; 0 leaves the row out");
  return 0;
}

void RowEncoder::check() const {
  if (faults_.empty()) return;
  const Fault& fault = faults_[0];
  throw Error(ExitCode::kBadData, fault.fields.first[0].where, fault.what + fault.fields.counted_others(),
              fault.cure);
}

void RowEncoder::write_category(const ColumnEncoding& column, const TableFile::Row& row, size_t at,
                                float* out) {
  std::fill(out, out + column.width(), 0.0F);
  const auto found = category_of(column.categories, row[at]);
  if (found)
    out[*found] = 1;
  else
    unknown_.add(file_, row, at);
}

double RowEncoder::scaled(const ColumnEncoding& column, const TableFile::Row& row, size_t at) {
  const double number = number_of(column, row, at);
  const double result = options_.standardize ? (number - column.mean) / column.deviation : number;
  if (std::abs(result) <= double{std::numeric_limits<float>::max()}) return result;
  refuse(row, at, quote(trim(row[at].text)) + " is too far from the column's mean for float32",
         "correct the field, or set standardize: false");
  return 0;
}

double RowEncoder::number_of(const ColumnEncoding& column, const TableFile::Row& row, size_t at) {
  const std::string_view text = row[at].text;
  if (const auto number = number_in(row[at])) return *number;
  const bool missing = is_missing(row[at]) || missing_words_.contains(trim(text));
  if (!missing && !options_.bad_cells_are_missing) {
    refuse(row, at, quote(trim(text)) + " is no number, as the column's fields in the training file are",
           "correct the field, or set bad_cells: missing, or list the column in categorical");
    return 0;
  }
  if (!missing) bad_.add(file_, row, at);
  if (options_.missing == MissingPolicy::kFail) {
    refuse(row, at, missing ? "is missing" : quote(trim(text)) + " is no number, and so is missing",
           "fill it in, or set missing: mean");
  }
  return options_.missing == MissingPolicy::kMean ? column.mean : 0;
}

std::optional<int64_t> RowEncoder::category_of(const Categories& categories, const CsvField& field) const {
  return find_category(categories, encoding_.format.decimal, field, file_.format().decimal);
}

// Nothing where it stands for what is missing, as -999 may, or is none.
std::optional<double> RowEncoder::number_in(const CsvField& field) const {
  if (missing_words_.contains(trim(field.text))) return std::nullopt;
  return field_number(field.text, file_.format().decimal);
}

// Of a target, or of a field of words.
bool RowEncoder::is_missing(const CsvField& field) const {
  const std::string_view text = trim(field.text);
  return text.empty() || (!field.quoted && missing_words_.contains(text));
}

// Fields of one column are one fault with others of it that are refused alike.
void RowEncoder::refuse(const TableFile::Row& row, size_t at, const std::string& what,
                        const std::string& cure) {
  auto fault = std::ranges::find(faults_, cure, &Fault::cure);
  if (fault == faults_.end()) fault = faults_.insert(fault, {.what = what, .cure = cure});
  fault->fields.add(file_, row, at);
}

}  // namespace autotrain
