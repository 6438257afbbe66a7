#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace autotrain {

/// What the images of 16 bits among some files use of them: cameras and scanners often give 12.
struct BitsInUse {
  int64_t bits = 16;    ///< 8, 10, 12, 14 or 16, that the largest value needs
  int64_t images = 0;   ///< of 16 bits, that were looked at
  int64_t largest = 0;  ///< value in them
};

/// Looks at some files, evenly from the list, and decodes up to 32 that have 16 bits; those that cannot be
/// read are passed over.
BitsInUse bits_in_use(int64_t files, const std::function<std::string(int64_t)>& path);

/// Whether there are any of 16 bits among some of the files; reads the beginnings of 256 at most.
bool any_wide_image(int64_t files, const std::function<std::string(int64_t)>& path);

}  // namespace autotrain
