#include "report/figure_table.h"

#include <algorithm>
#include <cmath>

#include "autotrain/error.h"
#include "base/files.h"
#include "base/text.h"
#include "report/live_text.h"
#include "report/table.h"

namespace autotrain {
namespace {

constexpr size_t kWidestName = 24;  // characters of a row's name, beside seven columns of figures

// Other figures may be whole, too.
bool is_counts(const std::string& column) {
  return column == "boxes" || column == "images";
}

std::string cut_name(const std::string& name) {
  return display_width(name) <= kWidestName ? name : cut_to(name, kWidestName - 1) + "…";
}

}  // namespace

std::vector<std::string> column_names(const FigureTable& table) {
  std::vector<std::string> names;
  for (const std::string& name : split(table.columns_are, ',')) names.emplace_back(trim(name));
  const auto is_word = [](const std::string& name) { return name.find(' ') == std::string::npos; };
  const bool one_for_each = !table.cells.empty() && table.cells[0].size() == names.size();
  if (names.size() > 1 && one_for_each && std::ranges::all_of(names, is_word)) return names;
  return {};
}

std::vector<std::string> column_headings(const FigureTable& table) {
  std::vector<std::string> headings = column_names(table);
  if (!headings.empty() || table.cells.empty()) return headings;
  for (size_t i = 0; i < table.cells[0].size(); ++i) headings.push_back(std::to_string(i));
  return headings;
}

std::vector<std::string> cells_in_words(const FigureTable& table, size_t row) {
  const std::vector<std::string> names = column_names(table);
  const bool named = !names.empty();
  std::vector<std::string> words;
  for (size_t column = 0; column < table.cells[row].size(); ++column) {
    const double cell = table.cells[row][column];
    if (!named)
      words.push_back(brief(cell, 6));
    else
      words.push_back(std::isfinite(cell) ? fixed(cell, is_counts(names[column]) ? 0 : 3) : "");
  }
  return words;
}

std::string row_name(const FigureTable& table, size_t row, const std::vector<std::string>& classes) {
  const bool named = table.rows_are == "class" && row < classes.size();
  return named ? classes[row] : std::to_string(row);
}

std::string text_of(const FigureTable& table, const std::vector<std::string>& classes) {
  const bool named = !column_names(table).empty();
  std::vector<std::string> header = {named ? table.rows_are : cat(table.rows_are, " \\ ", table.columns_are)};
  for (std::string& heading : column_headings(table)) header.push_back(std::move(heading));
  TextTable text(header);
  for (size_t row = 0; row < table.cells.size(); ++row) {
    std::vector<std::string> cells = {cut_name(row_name(table, row, classes))};
    for (std::string& cell : cells_in_words(table, row)) cells.push_back(std::move(cell));
    text.add_row(std::move(cells));
  }
  return cat(table.name, "\n", text.text());
}

std::vector<std::string> class_names_of(const std::filesystem::path& run) {
  std::error_code ignored;
  if (run.empty() || !std::filesystem::exists(run / kClassesFile, ignored)) return {};
  try {
    std::vector<std::string> names = split(read_file(run / kClassesFile), '\n');
    if (names.back().empty()) names.pop_back();
    return names;
  } catch (const Error&) {
    return {};  // numbers do as well
  }
}

namespace {

std::vector<std::string> without(const std::vector<std::string>& names,
                                 const std::vector<std::string>& known) {
  std::vector<std::string> others;
  std::ranges::copy_if(names, std::back_inserter(others), [&](const std::string& name) {
    return std::ranges::find(known, name) == known.end();
  });
  return others;
}

std::string words_of_change(const std::vector<std::string>& then, const std::vector<std::string>& now) {
  const std::vector<std::string> gone = without(then, now), fresh = without(now, then);
  std::vector<std::string> parts;
  if (!gone.empty()) parts.push_back(cat("without ", some_of(gone)));
  if (!fresh.empty()) parts.push_back(cat("with ", some_of(fresh)));
  if (!parts.empty()) return cat("are now ", join(parts, ", and "));
  const auto at = std::ranges::mismatch(then, now).in1 - then.begin();
  if (at == std::ssize(then) || at == std::ssize(now))
    return cat("are now ", now.size(), ", and were ", then.size());
  const auto place = static_cast<size_t>(at);
  return cat("are now in another order: class ", at, " is ", now[place], ", and was ", then[place]);
}

}  // namespace

std::string change_of_classes(const std::filesystem::path& run, std::vector<std::string> now) {
  const std::vector<std::string> then = class_names_of(run);
  for (std::string& name : now) std::ranges::replace(name, '\n', ' ');  // as the run wrote them
  if (then.empty() || now.empty() || then == now) return "";
  return cat("the classes of the run, which ", (run / kClassesFile).string(), " lists, ",
             words_of_change(then, now), ": each would be taken for another");
}

}  // namespace autotrain
