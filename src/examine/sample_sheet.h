#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace autotrain {

class Dataset;

/// Samples side by side in one image, as a model gets them: augmented, boxes drawn in, in their order on the
/// sheet.
struct SampleSheet {
  struct Entry {
    int64_t sample = 0;
    std::string name = {};  ///< of its file; "": it has none
    std::string target =
        {};  ///< "3: shirt", "0.5", "2 dress, 1 bag"; "": it has none that is a number or boxes
  };
  std::string png = {};  ///< the file's bytes
  int64_t columns = 0;   ///< samples in a row
  std::vector<Entry> entries = {};
  double least = 0, greatest = 0;  ///< inputs that are drawn black and white
};

/// Draws up to `count` samples that lie evenly in the data; nothing where they are no images.
/// @param seed for what is random in them, of the first epoch.
std::optional<SampleSheet> draw_samples(const Dataset& data, int64_t count, uint64_t seed);

}  // namespace autotrain
