#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "base/json.h"
#include "report/csv_file.h"
#include "report/page.h"

namespace autotrain {

/// What the values of a column are, which decides how they are printed.
enum class Unit {
  kNumber,        ///< "0.02513"; words and flags as they are
  kCount,         ///< "12,800"
  kBytes,         ///< "1.50 GiB"
  kSeconds,       ///< "3 min 20 s"
  kMilliseconds,  ///< seconds, printed as milliseconds: "25.1"
  kRate,          ///< "45.6M", of something a second
  kShare,         ///< "87.4 %"
};

/// A value of a column as people read it; "-": it is null or not finite.
std::string in_unit(const nlohmann::ordered_json& value, Unit unit);

/// The value with null in place of every number that is not finite, which JSON does not have.
nlohmann::ordered_json with_nulls(nlohmann::ordered_json value);

/// "0.0251", "5.31", "1360".
std::string milliseconds(double seconds);

/// How pages draw a column.
struct Plot {
  std::string title = {};
  std::string label = {};  ///< of the y axis
  bool log = false;
  page::Draw draw = page::Draw::kLine;
  bool smoothable = false;
};

page::Axis y_axis(const Plot& plot, Unit unit);

/// A figure of a record: what it is called and how it is read, written and printed. A kind of record has one
/// list of them, from which its JSON, CSV, tables and plots are made; a figure is added there.
template <class Record>
struct Column {
  std::string name = {};     ///< in JSON and CSV, with its unit; "": files leave it out
  std::string heading = {};  ///< of tables on pages and on the terminal; "": they leave it out
  Unit unit = Unit::kNumber;
  std::optional<Plot> plot = {};  ///< nothing: pages do not draw it

  /// What JSON has, which is of the column's type: a number, a word, a flag, or an object of figures.
  std::function<nlohmann::ordered_json(const Record& record)> value = {};

  /// Takes it from a row of JSON; nothing: it follows from the others.
  std::function<void(const nlohmann::ordered_json& row, Record& record)> read = {};

  /// What tables have; nothing: the value in its unit.
  std::function<std::string(const Record& record)> text = {};

  bool sparse = false;  ///< rows in which it is null leave it out
  bool timed = false;   ///< it tells of clocks or memory, in which runs that compute the same differ
};

template <class Record>
using ColumnsOf = std::vector<Column<Record>>;

/// The column of a member, which files have under that name. @param rest all that is not said so.
template <class Record, class Owner, class Value>
Column<Record> column(std::string name, Value Owner::*member, Column<Record> rest = {}) {
  rest.name = std::move(name);
  rest.value = [member](const Record& record) { return field_to_json(record.*member); };
  rest.read = [member, key = rest.name](const nlohmann::ordered_json& row, Record& record) {
    if constexpr (std::is_same_v<Value, double>) {
      record.*member = number_or_nan(row.at(key));
    } else {
      read_field(row.at(key), record.*member);
    }
  };
  return rest;
}

template <class Record>
nlohmann::ordered_json json_of(const ColumnsOf<Record>& columns, const Record& record) {
  auto json = nlohmann::ordered_json::object();
  for (const Column<Record>& column : columns) {
    if (column.name.empty()) continue;
    nlohmann::ordered_json value = with_nulls(column.value(record));
    if (!column.sparse || !value.is_null()) json[column.name] = std::move(value);
  }
  return json;
}

/// Takes what `json_of` wrote. @throws nlohmann::json::exception when a column is missing or of another type.
template <class Record>
void read_record(const ColumnsOf<Record>& columns, const nlohmann::ordered_json& json, Record& record) {
  for (const Column<Record>& column : columns) {
    if (column.read) column.read(json, record);
  }
}

/// The same of files that may be damaged or of another version: what is missing or of another type stays.
template <class Record>
void read_what_is_there(const ColumnsOf<Record>& columns, const nlohmann::ordered_json& json,
                        Record& record) {
  for (const Column<Record>& column : columns) {
    try {
      if (column.read) column.read(json, record);
    } catch (const nlohmann::json::exception&) {
      // The record keeps what it had.
    }
  }
}

template <class Record>
std::vector<std::string> csv_header(const ColumnsOf<Record>& columns, const std::string& prefix = "") {
  std::vector<std::string> names;
  for (const Column<Record>& column : columns) {
    if (!column.name.empty()) names.push_back(prefix + column.name);
  }
  return names;
}

template <class Record>
std::vector<std::string> csv_cells(const ColumnsOf<Record>& columns, const Record& record) {
  std::vector<std::string> cells;
  for (const Column<Record>& column : columns) {
    if (!column.name.empty()) cells.push_back(csv_cell(column.value(record)));
  }
  return cells;
}

template <class Record>
std::vector<std::string> headings_of(const ColumnsOf<Record>& columns) {
  std::vector<std::string> headings;
  for (const Column<Record>& column : columns) {
    if (!column.heading.empty()) headings.push_back(column.heading);
  }
  return headings;
}

template <class Record>
std::vector<std::string> table_row(const ColumnsOf<Record>& columns, const Record& record) {
  std::vector<std::string> cells;
  for (const Column<Record>& column : columns) {
    if (column.heading.empty()) continue;
    cells.push_back(column.text ? column.text(record) : in_unit(column.value(record), column.unit));
  }
  return cells;
}

}  // namespace autotrain
