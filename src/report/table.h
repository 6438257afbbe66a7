#pragma once

#include <string>
#include <vector>

namespace autotrain {

/// A table of text with aligned columns, two spaces between them. A column whose every cell below the
/// header reads as a number is aligned to the right. Widths count characters, not bytes.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header, std::vector<std::vector<std::string>> rows = {})
      : header_(std::move(header)), rows_(std::move(rows)) {}
  void add_row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  std::string text() const;

 private:
  std::vector<std::string> header_;  // empty: no header
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace autotrain
