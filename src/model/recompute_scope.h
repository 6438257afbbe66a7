#pragma once

#include <cstdint>
#include <limits>

namespace autotrain {

inline constexpr int64_t kAllBlocks = std::numeric_limits<int64_t>::max();

/// From now on autograd asks the scopes of this file and of moved_tensors.h what becomes of a tensor that it
/// keeps.
void install_saved_tensor_hooks();

/// While it lives, the first `blocks` calls of `checkpoint` in this thread compute their blocks again in the
/// backward pass. With 0 it does nothing. Scopes do not nest.
class RecomputeScope {
 public:
  explicit RecomputeScope(int64_t blocks);
  ~RecomputeScope();
  RecomputeScope(const RecomputeScope&) = delete;
  RecomputeScope& operator=(const RecomputeScope&) = delete;
};

/// What calls of `checkpoint` would keep for a backward pass.
struct CheckpointedBytes {
  int64_t blocks = 0;
  int64_t within = 0;  ///< bytes that blocks keep, parameters left out
  int64_t inputs = 0;  ///< bytes of the blocks' inputs, which are kept in their place
};

/// While it lives, counts what the first `blocks` calls of `checkpoint` in this thread keep.
class CheckpointCount {
 public:
  explicit CheckpointCount(int64_t blocks);
  ~CheckpointCount();
  CheckpointCount(const CheckpointCount&) = delete;
  CheckpointCount& operator=(const CheckpointCount&) = delete;

  CheckpointedBytes bytes() const;
};

}  // namespace autotrain
