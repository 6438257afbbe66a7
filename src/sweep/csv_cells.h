#pragma once

#include <string>
#include <vector>

#include "report/column.h"

namespace autotrain {

/// Adds a record's cells to a line; empty ones where there is no record.
template <class Record>
void add_csv_cells(std::vector<std::string>& line, const ColumnsOf<Record>& columns, const Record* record) {
  const std::vector<std::string> cells =
      record == nullptr ? std::vector<std::string>(csv_header(columns).size()) : csv_cells(columns, *record);
  line.insert(line.end(), cells.begin(), cells.end());
}

}  // namespace autotrain
