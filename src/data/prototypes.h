#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace autotrain {

/// Random points, one for each class, in a space of `size` numbers. All are one sequence of random numbers,
/// of which each class has its stretch: it is drawn when it is first asked for, wherever that is. The memory
/// is there from the beginning, since what takes memory later would not be in a budget's search.
class Prototypes {
 public:
  Prototypes(uint64_t key, int64_t size, int64_t classes);

  /// The process's own points of this kind: the same object for the same numbers, as long as somebody holds
  /// it.
  static std::shared_ptr<const Prototypes> of_process(uint64_t key, int64_t size, int64_t classes);

  /// `size` standard normal numbers. Thread-safe.
  const float* of(int64_t label) const;

 private:
  void draw(int64_t block) const;

  uint64_t key_;
  int64_t size_, classes_;
  int64_t block_;                                    // classes that are drawn together
  mutable std::vector<float> values_;                // [classes, size]
  mutable std::unique_ptr<std::once_flag[]> drawn_;  // of each block
};

}  // namespace autotrain
