#include "data/yolo_labels.h"

#include <algorithm>
#include <array>

#include "autotrain/error.h"
#include "base/text.h"

namespace autotrain {
namespace {

constexpr double kLeastPartLeft = 0.25;  // of a box's area; less shows too little of the object

[[noreturn]] void fail_line(const std::string& where, size_t line, const std::string& what) {
  throw Error(ExitCode::kBadData, cat(where, ":", line), what,
              "a line is \"class cx cy w h\": a whole number, then centre and size as parts of the image");
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  const char* const spaces = " \t\r";
  for (size_t at = line.find_first_not_of(spaces); at != std::string_view::npos;) {
    const size_t end = std::min(line.find_first_of(spaces, at), line.size());
    words.push_back(line.substr(at, end - at));
    at = line.find_first_not_of(spaces, end);
  }
  return words;
}

LabelledBox parse_box(const std::vector<std::string_view>& words, const std::string& where, size_t line,
                      int64_t classes) {
  LabelledBox box;
  if (words.size() != 5) fail_line(where, line, cat("has ", words.size(), " values, not five"));
  if (!parse_integer(words[0], box.category) || box.category < 0 || box.category >= classes) {
    fail_line(where, line, cat("the class ", quote(words[0]), " is not a number from 0 to ", classes - 1));
  }
  const std::array<double*, 4> lengths = {&box.centre_x, &box.centre_y, &box.width, &box.height};
  for (size_t i = 0; i < lengths.size(); ++i) {
    const bool number = parse_real(words[i + 1], *lengths[i]);
    if (number && *lengths[i] >= 0 && *lengths[i] <= 1) continue;
    fail_line(where, line, cat(quote(words[i + 1]), " is not a number from 0 to 1"));
  }
  if (box.width == 0 || box.height == 0) fail_line(where, line, "the box is empty");
  return box;
}

// An extent along one axis, in pixels of the planes.
struct Extent {
  double begin;
  double end;
  double length() const { return std::max(0.0, end - begin); }
};

// Returns where a length along an image's side lands when the part [from, from + part) becomes
// [to, to + pixels).
Extent placed(double centre, double length, int64_t side, double from, double part, int64_t to,
              int64_t pixels) {
  const double scale = static_cast<double>(pixels) / part;
  const double begin = ((centre - length / 2) * static_cast<double>(side) - from) * scale;
  return {static_cast<double>(to) + begin,
          static_cast<double>(to) + begin + length * static_cast<double>(side) * scale};
}

Extent clipped(const Extent& extent, int64_t begin, int64_t pixels) {
  return {std::max(extent.begin, static_cast<double>(begin)),
          std::min(extent.end, static_cast<double>(begin + pixels))};
}

}  // namespace

std::vector<LabelledBox> parse_labels(std::string_view text, const std::string& where, int64_t classes) {
  std::vector<LabelledBox> boxes;
  size_t number = 0;
  for (const std::string_view line : split(text, '\n')) {
    const std::vector<std::string_view> words = words_of(line);
    ++number;
    if (!words.empty()) boxes.push_back(parse_box(words, where, number, classes));
  }
  return boxes;
}

std::vector<LabelledBox> place_boxes(const std::vector<LabelledBox>& boxes, const ImageSize& image,
                                     const Placement& placement, const ImageSize& size) {
  const auto& [region, target] = placement;
  const auto height = static_cast<double>(size.height), width = static_cast<double>(size.width);
  std::vector<LabelledBox> left;
  for (const LabelledBox& box : boxes) {
    const Extent rows =
        placed(box.centre_y, box.height, image.height, region.top, region.height, target.top, target.height);
    const Extent columns =
        placed(box.centre_x, box.width, image.width, region.left, region.width, target.left, target.width);
    const Extent y = clipped(rows, target.top, target.height);
    const Extent x = clipped(columns, target.left, target.width);
    if (y.length() * x.length() < kLeastPartLeft * rows.length() * columns.length()) continue;
    left.push_back({box.category, (x.begin + x.end) / 2 / width, (y.begin + y.end) / 2 / height,
                    x.length() / width, y.length() / height});
  }
  return left;
}

}  // namespace autotrain
