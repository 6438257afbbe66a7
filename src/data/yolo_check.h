#pragma once

#include <map>
#include <string>
#include <vector>

#include "autotrain/error.h"
#include "data/box_table.h"
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
