#include "report/table.h"

#include <algorithm>

#include "base/text.h"

namespace autotrain {
namespace {

bool looks_like_number(const std::string& cell) {
  return !cell.empty() && (cell[0] == '-' || cell[0] == '.' || (cell[0] >= '0' && cell[0] <= '9'));
}

}  // namespace

std::string TextTable::text() const {
  std::vector<std::vector<std::string>> lines = rows_;
  if (!header_.empty()) lines.insert(lines.begin(), header_);
  std::vector<size_t> widths;
  std::vector<bool> numeric;
  for (const auto& line : lines) {
    widths.resize(std::max(widths.size(), line.size()), 0);
    numeric.resize(widths.size(), true);
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], display_width(line[i]));
  }
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) {
      if (!row[i].empty() && !looks_like_number(row[i])) numeric[i] = false;
    }
  }
  std::string out;
  for (const auto& line : lines) {
    std::string text;
    for (size_t i = 0; i < line.size(); ++i) {
      const std::string padding(widths[i] - display_width(line[i]), ' ');
      text += i > 0 ? "  " : "";
      text += numeric[i] ? padding + line[i] : line[i] + padding;
    }
    out += text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

}  // namespace autotrain
