#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <span>
#include <vector>

namespace autotrain {

/// The id of a class to which a file of annotations gives none: no file can give this one.
inline constexpr int64_t kNoCategoryId = std::numeric_limits<int64_t>::min();

/// An object in an image. Lengths are parts of the image's width or height, in [0, 1].
struct LabelledBox {
  int64_t category = 0;
  double centre_x = 0;
  double centre_y = 0;
  double width = 0;
  double height = 0;
  bool crowd = false;  ///< objects that nobody told apart
  double area = 0;     ///< in pixels of the image as annotated; 0: that of the box

  bool operator==(const LabelledBox&) const = default;
};

/// The boxes of all images of a data set, in one block of memory.
class BoxTable {
 public:
  /// Adds the boxes of the next image.
  void add(std::span<const LabelledBox> boxes) {
    boxes_.insert(boxes_.end(), boxes.begin(), boxes.end());
    ends_.push_back(boxes_.size());
    most_ = std::max(most_, std::ssize(boxes));
  }

  int64_t most() const { return most_; }  ///< boxes of an image
  int64_t images() const { return static_cast<int64_t>(ends_.size()); }
  std::span<const LabelledBox> of(int64_t image) const {
    const auto i = static_cast<size_t>(image);
    const size_t begin = i == 0 ? 0 : ends_[i - 1];
    return std::span(boxes_).subspan(begin, ends_[i] - begin);
  }

 private:
  std::vector<LabelledBox> boxes_;
  std::vector<size_t> ends_;
  int64_t most_ = 0;
};

}  // namespace autotrain
