#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

#include "autotrain/named_tensor.h"

namespace autotrain {

/// Tells whether the gradients of some parameters were changed since they were noted, as a `backward()` or
/// `zero_grad()` in code of the user's own does. Reads no device memory.
class GradientWatch {
 public:
  /// Notes them. @param parameters must outlive this object.
  explicit GradientWatch(const std::vector<NamedTensor>& parameters);

  /// From now on they are as they should be.
  void note();

  /// The name of the first parameter whose gradient came, went, was replaced or was written to; "" if none.
  std::string first_changed() const;

  /// Likewise, of those that have a gradient now. @param in_place whether writing to it counts, too.
  std::string first_set(bool in_place) const;

 private:
  struct Seen {
    torch::Tensor gradient;
    int64_t version = 0;
  };
  bool is_as_seen(size_t i, bool in_place) const;

  const std::vector<NamedTensor>& parameters_;
  std::vector<Seen> seen_;
};

}  // namespace autotrain
