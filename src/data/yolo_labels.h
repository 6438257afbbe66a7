#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "autotrain/error.h"
#include "base/enum_names.h"
#include "data/box_table.h"

namespace autotrain {

/// What is made of a line with more values than five.
enum class LongerLines {
  kRefuse,
  kPolygon,  ///< class, then corners x y: their bounding box is taken
  kDrop,     ///< what stands behind the fifth is left out
};

constexpr auto enum_names(LongerLines) {
  using L = LongerLines;
  return std::array{EnumName<L>{L::kRefuse, "refuse"}, EnumName<L>{L::kPolygon, "polygon"},
                    EnumName<L>{L::kDrop, "drop"}};
}

struct LabelReading {
  int64_t classes = 0;
  LongerLines longer_lines = LongerLines::kRefuse;
};

/// A line that is no box. Lines count from 1.
struct LabelFault {
  size_t line = 0;
  const char* kind = "";  ///< what it has in common with others: "lines of fewer than five values"
  std::string what = {};  ///< "has 4 values, not five"
  const char* cure = "";
};

/// What a label file says.
struct LabelFile {
  std::vector<LabelledBox> boxes = {};
  std::vector<LabelFault> faults = {};
  std::vector<size_t> clipped = {};  ///< lines with a length a little outside 0 to 1, which is made 0 or 1
  std::vector<size_t> doubled = {};  ///< lines whose box stands there already, which are left out
  std::vector<size_t> without_area = {};  ///< lines whose box has no area, which are left out
};

/// Reads a label file in YOLO's format: a line "class cx cy w h" for each box; empty lines are skipped, and
/// so is a byte-order mark; a class may be written as 2.0. A length may lie up to 0.01 outside of 0 to 1. A
/// box without an area is left out.
LabelFile read_label_file(std::string_view text, const LabelReading& reading);

/// The boxes of a label file. @param where names the file in errors, to which the line's number is added.
/// @throws Error(kBadData) for the first fault.
std::vector<LabelledBox> parse_labels(std::string_view text, const std::string& where,
                                      const LabelReading& reading);

/// The first fault of a file that has one, as an error.
Error first_fault(const LabelFile& file, const std::string& where);

}  // namespace autotrain
