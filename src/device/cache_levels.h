#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace autotrain {

/// A cache that holds data.
struct CacheLevel {
  std::string name;        ///< "L1", "L2", "L3"
  int64_t bytes = 0;       ///< of one
  int64_t processors = 1;  ///< logical ones that share it
};

/// The caches of the first processor, smallest first, as Linux tells; empty when it does not.
/// `root` is where /sys is looked for.
std::vector<CacheLevel> cache_levels(const std::filesystem::path& root = "/");

}  // namespace autotrain
