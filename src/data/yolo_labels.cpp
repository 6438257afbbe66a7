#include "data/yolo_labels.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "autotrain/error.h"
#include "base/text.h"

namespace autotrain {
namespace {

constexpr double kLittle = 0.01;  // that a length may lie outside: rounding, and boxes drawn to the edge

constexpr const char* kLabelFormat =
    "a line is \"class cx cy w h\": a whole number, then centre and size as parts of the image";

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  const char* const spaces = " \t\f\v";
  for (size_t at = line.find_first_not_of(spaces); at != std::string_view::npos;) {
    const size_t end = std::min(line.find_first_of(spaces, at), line.size());
    words.push_back(line.substr(at, end - at));
    at = line.find_first_not_of(spaces, end);
  }
  return words;
}

// Lines end as on Unix, Windows or old Macs.
std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of("\r\n"), text.size());
    lines.push_back(text.substr(0, end));
    const size_t ending = text.substr(end).starts_with("\r\n") ? 2 : 1;
    text.remove_prefix(std::min(end + ending, text.size()));
  }
  return lines;
}

// Reads the lines of one file.
class LabelReader {
 public:
  explicit LabelReader(const LabelReading& reading) : reading_(reading) {}

  LabelFile read(std::string_view text) && {
    if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff")) {
      line_ = 1;
      fault("files that are no plain text", "is UTF-16 text", "write it as UTF-8");
      return std::move(file_);
    }
    for (const std::string_view line : lines_of(without_byte_order_mark(text))) {
      ++line_;
      const std::vector<std::string_view> words = words_of(line);
      if (!words.empty()) read_line(line, words);
    }
    return std::move(file_);
  }

 private:
  void fault(const char* kind, std::string what, const char* cure = kLabelFormat) {
    file_.faults.push_back({line_, kind, std::move(what), cure});
  }

  void read_line(std::string_view line, const std::vector<std::string_view>& words) {
    if (line.find_first_of(",;") != std::string_view::npos) {
      return fault("values with commas", cat("has commas or semicolons in ", quote(trim(line))),
                   "set values apart by spaces, and write decimals with points");
    }
    if (words.size() < 5)
      return fault("lines of fewer than five values", cat("has ", words.size(), " values, not five"));
    if (words.size() > 5 && !takes(words.size())) return;
    std::optional<int64_t> category = read_category(words[0]);
    if (!category) return;
    std::vector<double> lengths;
    const size_t used = words.size() > 5 && reading_.longer_lines == LongerLines::kPolygon ? words.size() : 5;
    bool clipped = false;
    for (size_t i = 1; i < used; ++i) {
      const std::optional<double> length = read_length(words[i], clipped);
      if (!length) return;
      lengths.push_back(*length);
    }
    take(used == 5 ? LabelledBox{*category, lengths[0], lengths[1], lengths[2], lengths[3]}
                   : around(*category, lengths),
         clipped);
  }

  // Whether a line of more than five values is one that the reading takes.
  bool takes(size_t words) {
    const bool corners = words >= 7 && words % 2 == 1;
    if (reading_.longer_lines == LongerLines::kDrop) return true;
    if (reading_.longer_lines == LongerLines::kPolygon && corners) return true;
    if (words == 6) {
      fault("lines with a sixth value", "has 6 values; a sixth is a confidence, as of predictions",
            "remove it, or set longer_lines: drop");
    } else if (corners) {
      fault("lines of more than five values",
            cat("has ", words, " values, as a class and the corners of a polygon have (segmentation)"),
            "set longer_lines: polygon for the boxes around them, or drop where what follows the box is of "
            "no use (key points)");
    } else {
      fault("lines of more than five values", cat("has ", words, " values, not five"),
            "remove what follows the box, or set longer_lines: drop");
    }
    return false;
  }

  std::optional<int64_t> read_category(std::string_view word) {
    double number = 0;
    const bool whole = parse_real(word, number) && number == std::floor(number);
    if (whole && number >= 0 && number < static_cast<double>(reading_.classes))
      return static_cast<int64_t>(number);
    fault(whole ? "classes that there are not" : "classes that are no whole numbers",
          cat("the class ", quote(word), " is not a number from 0 to ", reading_.classes - 1),
          whole ? "name all classes, and number them from 0" : kLabelFormat);
    return std::nullopt;
  }

  std::optional<double> read_length(std::string_view word, bool& clipped) {
    double length = 0;
    if (!parse_real(word, length) || !std::isfinite(length)) {
      fault("values that are no numbers", cat(quote(word), " is not a number from 0 to 1"));
    } else if (length > 2) {
      fault("values in pixels", cat(quote(word), " is not a number from 0 to 1, it seems to be in pixels"),
            "divide x and width by the image's width, y and height by its height");
    } else if (length < -kLittle || length > 1 + kLittle) {
      fault("values outside of 0 to 1", cat(quote(word), " is not a number from 0 to 1"));
    } else {
      clipped = clipped || length < 0 || length > 1;
      return std::clamp(length, 0.0, 1.0);
    }
    return std::nullopt;
  }

  // @param corners x and y in turns.
  static LabelledBox around(int64_t category, const std::vector<double>& corners) {
    double left = 1, top = 1, right = 0, bottom = 0;
    for (size_t i = 0; i + 1 < corners.size(); i += 2) {
      left = std::min(left, corners[i]), right = std::max(right, corners[i]);
      top = std::min(top, corners[i + 1]), bottom = std::max(bottom, corners[i + 1]);
    }
    return {category, (left + right) / 2, (top + bottom) / 2, right - left, bottom - top};
  }

  void take(const LabelledBox& box, bool clipped) {
    if (box.width <= 0 || box.height <= 0) return file_.without_area.push_back(line_);
    if (clipped) file_.clipped.push_back(line_);
    if (std::ranges::find(file_.boxes, box) != file_.boxes.end()) return file_.doubled.push_back(line_);
    file_.boxes.push_back(box);
  }

  const LabelReading& reading_;
  LabelFile file_;
  size_t line_ = 0;
};

}  // namespace

LabelFile read_label_file(std::string_view text, const LabelReading& reading) {
  return LabelReader(reading).read(text);
}

std::vector<LabelledBox> parse_labels(std::string_view text, const std::string& where,
                                      const LabelReading& reading) {
  LabelFile file = read_label_file(text, reading);
  if (file.faults.empty()) return std::move(file.boxes);
  throw first_fault(file, where);
}

Error first_fault(const LabelFile& file, const std::string& where) {
  const LabelFault& fault = file.faults.front();
  return Error(ExitCode::kBadData, cat(where, ":", fault.line), fault.what, fault.cure);
}

}  // namespace autotrain
