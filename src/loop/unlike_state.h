#pragma once

#include "autotrain/task.h"
#include "comm/ranks.h"

namespace autotrain {

/// Looks, after the first updates of a session, whether a task's state is alike on all ranks, as
/// `Task::state` promises. What each rank fills from its own samples is not, and a checkpoint has the first
/// rank's alone.
class UnlikeState {
 public:
  /// All ranks call it after the same updates. Warns, on the first rank and once.
  void look(Task& task, Ranks& ranks);

 private:
  int looks_left_ = 2;
};

}  // namespace autotrain
