#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "model/graph_nodes.h"
#include "model/moved_tensors.h"
#include "model/small_form.h"

namespace autotrain::graph {

/// Notes at nodes which values may be kept in a smaller form between the halves of a graph, from which
/// operator of the forward half on and until which of the backward half: those that share memory with no
/// other value that the backward half takes, and with nothing that is given or returned.
void find_kept_values(Graph& graph);

/// What a pass keeps in a smaller form from its forward half to its backward half: truths and the numbers of
/// dropout as bits, indices as integers of the least type that has them, by the sizes of what they point
/// into. All from which values are made again to the bit. What has no smaller form lies in main memory
/// meanwhile, where a scope moves tensors (OffloadScope).
class KeptValues {
 public:
  /// Before the operator runs: makes again what it is the first to take.
  void before(const Node& node, std::vector<c10::IValue>& values);

  /// After it ran and what it was the last to take was freed.
  /// @param least_bytes of a value, that are worth it.
  void after(const Node& node, std::vector<c10::IValue>& values, int64_t least_bytes);

  /// The bytes that a value is kept in; nothing where it is kept as it was made.
  std::optional<int64_t> bytes(size_t value) const;

 private:
  std::optional<SmallForm> form_of(const KeptValue& kept, const torch::Tensor& tensor) const;

  std::map<size_t, SmallForm> forms_;
  std::map<size_t, std::shared_ptr<const MovedTensors::Moved>> moved_;
  std::shared_ptr<MovedTensors> main_memory_ = moved_tensors();
  std::map<size_t, int64_t> bounds_;  // of indices
};

}  // namespace autotrain::graph
