#pragma once

#include <signal.h>

#include "autotrain/recipe.h"

namespace autotrain {

/// The number of a signal in a recipe; 0: it names none.
constexpr int signal_number(RequeueSignal signal) {
  switch (signal) {
    case RequeueSignal::kNone: return 0;
    case RequeueSignal::kUsr1: return SIGUSR1;
    case RequeueSignal::kUsr2: return SIGUSR2;
  }
  return 0;
}

}  // namespace autotrain
