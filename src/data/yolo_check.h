#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "autotrain/error.h"
#include "data/box_table.h"
#include "data/image_file.h"
#include "data/look.h"
#include "data/yolo_files.h"
#include "data/yolo_labels.h"

namespace autotrain {

/// What all label files of a data set say together.
struct LabelSummary {
  std::vector<int64_t> by_class = {};         ///< boxes
  std::vector<int32_t> boxes_of_images = {};  ///< of each image
  int64_t empty_files = 0;                    ///< without a line
  std::vector<Doubt> doubts = {};             ///< clipped and doubled lines, boxes that say little
  std::vector<Doubt> faults = {};             ///< one for each kind of fault
  int64_t faulty_files = 0;
  const char* files_are = "label files";  ///< what faults are counted in
  std::string empty_words = {};           ///< of images without a box: ": 3 with an empty label file, …"

  int64_t boxes() const;
  /// "lines of fewer than five values (2): a.txt:3: has 4 values, not five · b.txt:1: …; …"
  static std::string words_of(const std::vector<Doubt>& doubts);
};

/// Tells boxes that are centre and size from those that are corners, by all of them together: of corners each
/// second pair is beyond the first, and read as sizes many leave their image.
class BoxShapes {
 public:
  /// @param as_corners whether the second pair of a box is beyond the first.
  void count(bool as_corners) {
    ++boxes_;
    corners_ += as_corners ? 1 : 0;
  }

  /// The box that was counted last leaves its image. @param words of it; called for the first.
  void count_outside(const std::function<std::string()>& words) {
    if (outside_++ == 0) first_outside_ = words();
  }

  int64_t boxes() const { return boxes_; }
  bool enough() const { return boxes_ >= 8; }  ///< to tell something of them all
  bool seem_corners() const { return enough() && corners_ == boxes_ && 4 * outside_ >= boxes_; }
  const std::string& first_outside() const { return first_outside_; }

 private:
  int64_t boxes_ = 0, corners_ = 0, outside_ = 0;
  std::string first_outside_;
};

/// Doubts a box of less than two pixels of a sample. @param words of it.
void doubt_tiny(const LabelledBox& box, const ImageSize& sample, const std::function<std::string()>& words,
                DataLook& look);

/// What the label files of a data set hold.
struct ReadLabels {
  BoxTable boxes = {};
  std::map<int64_t, Error> faulty = {};  ///< by the images of files that are no labels: the first fault
  LabelSummary summary = {};
};

/// Reads all label files, in as many threads as there are cores.
/// @param size of a sample, in which a box of less than two pixels says little.
/// @throws Error(kBadData, kInputOutput) for a file that cannot be read, Error(kInterrupted).
ReadLabels read_labels(const LabelledFiles& files, const LabelReading& reading, const ImageSize& size);

}  // namespace autotrain
