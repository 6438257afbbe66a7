#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/number_ends.h"
#include "data/table_file.h"

namespace autotrain {

/// Words that stand for a field where nothing is.
class MissingWords {
 public:
  /// @param words compared without regard to case.
  explicit MissingWords(const std::vector<std::string>& words);

  /// What counts as missing by default.
  static const std::vector<std::string>& usual();

  bool contains(std::string_view text) const;

 private:
  std::set<std::string> words_;
  size_t longest_ = 0;
};

/// Where a field is, and what it holds.
struct FieldPlace {
  std::string where;  ///< "rents.csv:201:22: rent"
  std::string at;     ///< "201:22"
  std::string text;   ///< quoted
};

/// Fields of one kind, of which the first are told.
struct FieldPlaces {
  static constexpr size_t kMost = 10;
  int64_t count = 0;
  std::vector<FieldPlace> first = {};

  void add(const TableFile& file, const TableFile::Row& row, size_t column);

  /// What a message about the first adds of the others: "; also at 305:22 "12%", …".
  std::string others() const;

  /// The same with their number: "; 12 such fields, also at 305:22 "12%", …".
  std::string counted_others() const;
};

/// The name under which a quoted field without a letter is counted: it is no missing one.
inline constexpr const char* kEmptyText = "\"\"";

/// What a field of a column of words is counted as: "" where nothing stands, kEmptyText where quotes hold
/// nothing, else its text without blanks around it.
std::string_view word_of(const CsvField& field);

/// What the fields of one column are, over all rows.
struct ColumnSurvey {
  size_t most_texts = 1000;  ///< that are told apart

  int64_t rows = 0;
  int64_t empty = 0;              ///< without quotes nor anything else
  FieldPlaces missing = {};       ///< those, empty quotes, and words for it
  FieldPlaces quoted_words = {};  ///< words for missing in quotes: text, in a column of words
  FieldPlaces words = {};         ///< neither numbers nor missing
  FieldPlaces sheet_errors = {};  ///< of these, that a spreadsheet wrote in the place of a value
  int64_t near_numbers = 0;       ///< of these, that look like a number

  DecimalMark decimal = DecimalMark::kPoint;
  int64_t numbers = 0;
  double least = 0, most = 0;
  NumberEnds ends = {};
  bool whole = true;        ///< all numbers are integers
  bool consecutive = true;  ///< each is one more than the one before
  bool rising = true;       ///< each is larger than the one before
  double last = 0;          ///< of the numbers
  double sum = 0;           ///< of them and of what they are without their signs
  double absolute_sum = 0;
  int64_t not_zero = 0;     ///< numbers
  int64_t row_of_last = 0;  ///< of the numbers, counted from 1
  FieldPlaces coded = {};   ///< numbers with leading zeros

  /// How often each text is there. Where there are more than `most_texts`, only that is known.
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  std::unordered_map<std::string, int64_t, Hash, std::equal_to<>> texts = {};
  bool too_many_texts = false;

  /// Of the numbers of the rows that count, updated one by one (Welford 1962).
  double counted = 0, mean = 0, squares = 0;

  /// @param counts whether the row is one of those that mean and deviation are of.
  void add(const TableFile& file, const TableFile::Row& row, size_t column, const MissingWords& missing_words,
           bool counts);

  int64_t values() const { return numbers + words.count; }
  int64_t different_numbers() const;  ///< of the texts that are told apart

  /// Nine in ten of what is there are numbers, or were to be.
  bool is_mostly_numbers() const { return values() > 0 && 10 * (numbers + near_numbers) >= 9 * values(); }

  /// Whether the number in the last row is the sum of all others, as in a row of totals.
  bool ends_in_total() const;

  /// Numbers and words in such parts that either could be meant.
  bool is_undecided() const;

 private:
  void add_number(double number, bool counts);
};

}  // namespace autotrain
