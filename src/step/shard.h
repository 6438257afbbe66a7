#pragma once

#include <torch/types.h>

#include <vector>

#include "base/flat_layout.h"
#include "comm/exchange.h"
#include "optim/optimizer.h"

namespace autotrain {

/// Ranks that share out the optimizer's work and state (ZeRO stage 1, Rajbhandari et al. 2020): the
/// parameters lie one behind the other in as many equal parts as there are ranks, and each rank updates its
/// part.
///
/// Whatever passes between ranks goes through buffers that the windows' gradients need anyway, so that no
/// exchange allocates memory. All ranks make the same calls.
class Shard {
 public:
  /// @param optimizer which updates this rank's part of `layout`; both must outlive this object.
  /// @param buffers [layout.elements()] each, one for each state of a parameter. Their content is lost in
  /// every call.
  Shard(Optimizer& optimizer, const FlatLayout& layout, Exchange& exchange,
        std::vector<torch::Tensor> buffers);

  /// Gives every rank the parameters as each rank has updated its own.
  void spread_parameters();

  /// The whole optimizer's state, named and shaped as one rank alone has it. What belongs to parameters lies
  /// in the buffers: what is written or read there holds until the next window begins.
  std::vector<NamedTensor> state() const;

  /// Fills `state` from all ranks' parts.
  void gather_state();

  /// Gives every rank its part of what rank 0 has in `state`.
  void take_state();

 private:
  Optimizer& optimizer_;
  const FlatLayout& layout_;
  Exchange& exchange_;
  std::vector<torch::Tensor> buffers_;
};

}  // namespace autotrain
