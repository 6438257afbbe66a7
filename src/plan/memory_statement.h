#pragma once

#include <optional>
#include <string>

#include "autotrain/memory.h"
#include "autotrain/plan.h"
#include "plan/workbench.h"

namespace autotrain {

/// Where the memory of a run goes, in bytes.
struct MemoryStatement {
  int64_t budget = 0;
  int64_t parameters = 0;
  int64_t gradients = 0;
  int64_t optimizer_state = 0;
  int64_t buffers = 0;
  int64_t autocast_copies = 0;  ///< weights cast to the precision, at most
  int64_t data = 0;             ///< everything else held now: the data set, where it lies on the device
  int64_t outside = 0;  ///< the most that stood beside the tensors: kernels, scratch memory of libraries
  int64_t shapes = 0;   ///< that inputs had so far; 0: not counted
  int64_t others = 0;   ///< used on the device by other processes, outside the budget
  std::optional<int64_t> machine = {};  ///< of a GPU, in no budget: this process's context, code, workspaces
  bool on_gpu = false;

  /// Needed at any micro-batch size.
  int64_t floor() const {
    return parameters + gradients + optimizer_state + buffers + autocast_copies + data;
  }
};

MemoryStatement memory_statement(const Workbench& bench);

/// The lines of a post-mortem: what the budget goes to and, if a refusal is known, what was asked for
/// in which phase and the largest blocks alive then.
std::string describe(const MemoryStatement& statement, const std::optional<Refusal>& refusal);

/// "38.0 MiB for 41 shapes", of what stands beside the tensors.
std::string outside_in_words(const MemoryStatement& statement);

/// The lines about a refusal alone.
std::string describe(const Refusal& refusal);

/// Buffers of the size of all gradients that a rank with so many lanes of an update has.
int64_t gradient_buffers(int64_t lanes, bool several_ranks);

}  // namespace autotrain
