#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/table_encoding.h"

namespace autotrain {

/// Writes rows of a file as an encoding says; the columns are found by their names. Fields that cannot be
/// written are gathered, so that one message can name them together.
class RowEncoder {
 public:
  /// @param labelled whether rows have their target, which else is not asked for. All must outlive this
  /// object.
  /// @throws Error(kBadRecipe) naming a column that the file does not have.
  RowEncoder(const TableFile& file, const TableEncoding& encoding, const TableOptions& options,
             bool labelled);

  /// Fills encoding.width() numbers.
  void write_features(const TableFile::Row& row, float* out);

  /// The number of the row's class, or the ignored one.
  int64_t class_of(const TableFile::Row& row);

  float quantity_of(const TableFile::Row& row);

  /// What the row counts by its field in `column`: finite and ≥ 0.
  double weight_of(const TableFile::Row& row, size_t column);

  /// @throws Error(kBadData) naming the first fields that could not be written, and how many they are.
  void check() const;

  const FieldPlaces& unknown_categories() const { return unknown_; }
  const FieldPlaces& bad_cells_as_missing() const { return bad_; }

 private:
  void check_places(bool labelled) const;
  struct Fault {
    std::string what = {}, cure = {};  // of each of the fields
    FieldPlaces fields = {};
  };

  void write_category(const ColumnEncoding& column, const TableFile::Row& row, size_t at, float* out);
  double scaled(const ColumnEncoding& column, const TableFile::Row& row, size_t at);
  double number_of(const ColumnEncoding& column, const TableFile::Row& row, size_t at);
  std::optional<int64_t> category_of(const Categories& categories, const CsvField& field) const;
  std::optional<double> number_in(const CsvField& field) const;
  bool is_missing(const CsvField& field) const;
  void refuse(const TableFile::Row& row, size_t at, const std::string& what, const std::string& cure);

  const TableFile& file_;
  const TableEncoding& encoding_;
  const TableOptions& options_;
  const MissingWords missing_words_;
  std::vector<size_t> columns_;
  size_t target_;
  FieldPlaces unknown_, bad_;
  std::vector<Fault> faults_;
};

}  // namespace autotrain
