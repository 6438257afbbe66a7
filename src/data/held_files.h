#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "data/preload.h"

namespace autotrain {

/// Numbered files, and their contents once they are held in memory.
class HeldFiles {
 public:
  using PathOf = std::function<std::string(int64_t)>;

  /// Reads the files [0, count). One that cannot be read is not held.
  void hold(int64_t count, const PathOf& path, const PreloadWork& work);

  bool empty() const { return contents_.empty(); }

  /// A file's bytes; empty: it is not held.
  std::span<const uint8_t> content(int64_t file) const {
    return contents_.empty() ? std::span<const uint8_t>() : contents_[static_cast<size_t>(file)];
  }

 private:
  std::vector<std::vector<uint8_t>> contents_;
};

/// What the files [0, count) take together; those that are not there take nothing.
int64_t bytes_of_files(int64_t count, const HeldFiles::PathOf& path);

}  // namespace autotrain
