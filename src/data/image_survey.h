#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/image_file.h"
#include "data/look.h"

namespace autotrain {

/// Numbered image files, and how they are read.
struct ImageList {
  int64_t count = 0;
  std::function<std::string(int64_t)> path;
  ImageReading reading = {};
};

/// A data set implements this, too, where its samples are made of image files.
class MadeOfImages {
 public:
  virtual ~MadeOfImages() = default;
  virtual ImageList list() const = 0;
};

/// What is known of an image file that was read and decoded.
struct SeenImage {
  int64_t index = 0;  ///< in the list
  ImageFacts facts = {};
  uint64_t hash = 0;         ///< of the file's bytes
  int64_t widest = 0;        ///< value in its file, where that has 16 bits
  std::string fault = {};    ///< why it cannot be read; what is known of its pixels then says nothing
  int64_t largest = 0;       ///< value of its pixels, as it is read
  bool one_colour = false;   ///< all of it, as it is read
  bool alpha_alone = false;  ///< its colours are the same everywhere, and its alpha is not
};

/// Reads and decodes all files, or at depth kStart 16 of them.
std::vector<SeenImage> see_images(const ImageList& images, const LookOptions& options);

/// The hash of each file's bytes; 0: it cannot be read.
std::vector<uint64_t> hash_files(const ImageList& images, const LookOptions& options);

/// Tells formats, sizes, channels, depth, alpha and orientation, and doubts files that cannot be read and
/// images that show nothing.
/// @param seen not empty.
void tell_images(const std::vector<SeenImage>& seen, const ImageList& images, const LookOptions& options,
                 DataLook& look);

/// Doubts images of 16 bits that have values beyond the bits that are used of them, which are cut off.
void doubt_cut_values(const std::vector<SeenImage>& seen, const ImageList& images, DataLook& look);

}  // namespace autotrain
