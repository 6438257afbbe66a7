#pragma once

#include <ATen/Context.h>

namespace autotrain {

/// Whether products, convolutions and recurrent layers of float32 may be computed in TF32 on a GPU, as the
/// process has it set. LibTorch has two interfaces for it, an older one and one by precisions; whoever asks
/// the older one after the newer one was used gets an exception.
class Tf32Settings {
 public:
  /// Whichever interface they were set by.
  static Tf32Settings now();

  /// Sets both interfaces to what they were.
  void put_in_force() const;

 private:
  at::Float32Precision products_{}, convolutions_{}, recurrent_{};
  bool products_formerly_ = false, convolutions_formerly_ = false;  // as the older interface has them
};

/// All of them, by both interfaces.
void allow_tf32_everywhere(bool allowed);

}  // namespace autotrain
