#include "loop/unlike_state.h"

#include "autotrain/log.h"
#include "base/random.h"
#include "base/text.h"

namespace autotrain {
namespace {

// Of each tensor, by name.
Ranks::Note digests_of(Task& task) {
  Ranks::Note digests = Ranks::Note::object();
  for (const NamedTensor& each : task.state()) {
    const torch::Tensor held = each.tensor.detach().to(torch::kCPU).contiguous();
    digests[each.name] = fnv1a({static_cast<const char*>(held.const_data_ptr()), held.nbytes()});
  }
  return digests;
}

}  // namespace

void UnlikeState::look(Task& task, Ranks& ranks) {
  if (!ranks.several() || looks_left_ == 0) return;
  --looks_left_;
  const Ranks::Note own = digests_of(task);
  const std::vector<Ranks::Note> all = ranks.meet(own);
  for (size_t rank = 1; rank < all.size(); ++rank) {
    for (const auto& [name, digest] : all[0].items()) {
      if (all[rank].value(name, Ranks::Note()) == digest) continue;
      looks_left_ = 0;
      if (!ranks.first()) return;
      return log::warn(
          "trainer",
          cat("Task::state: ", name, " is not the same on rank ", rank,
              " as on rank 0: it was filled from the samples of one rank, and what is learned depends "
              "on the number of ranks. Checkpoints have rank 0's, so that a resume is not exact. Fill "
              "it from what all ranks have (Gradients::all(), parameters), or use one rank"));
    }
  }
}

}  // namespace autotrain
