#pragma once

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/types.h>

namespace autotrain {

/// While it lives, what the calling thread draws on the CPU comes from `own` where no generator, or
/// LibTorch's global one, is named, as long as the thread works for a run (`base/run_thread.h`); the global
/// one is neither read nor moved. What other threads draw comes from the global one. Scopes nest.
class RunGeneratorScope {
 public:
  explicit RunGeneratorScope(at::Generator own);
  ~RunGeneratorScope();
  RunGeneratorScope(const RunGeneratorScope&) = delete;
  RunGeneratorScope& operator=(const RunGeneratorScope&) = delete;

 private:
  const at::Generator before_;
  const c10::impl::IncludeDispatchKeyGuard watched_;
};

}  // namespace autotrain
