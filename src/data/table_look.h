#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "data/datasets.h"
#include "data/table_encoding.h"

namespace autotrain {

/// A data set of rows implements this, too: by what, and of what, they were made.
class ReadTable {
 public:
  virtual ~ReadTable() = default;
  virtual const TableEncoding& encoding() const = 0;
  virtual const std::string& path() const = 0;  ///< of its own file
  virtual bool standardized() const = 0;        ///< numbers are those less their mean, by their deviation
};

/// Some rows of a file.
struct TablePart {
  const TableFile& file;
  std::function<bool(int64_t row)> wanted;
};

/// Doubts rows that share what a column of keys names, such as a patient, with rows of the training data,
/// where there are few of each.
void doubt_shared_groups(const TablePart& own, const TablePart& training, const std::string& target,
                         DataLook& look);

/// Says what was understood of a table, column by column, and what is doubtful. At the start that is what
/// reading it found out; the whole look reads `file`, its own, again, and compares rows with those of the
/// training data. Precondition: the data implement ReadTable.
void look_at_rows(const LookRequest& request, const TableFile& file, const MissingWords& missing_words,
                  DataLook& look);

}  // namespace autotrain
