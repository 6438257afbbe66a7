#pragma once

#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>

#include <memory>
#include <optional>

#include "base/run_thread.h"
#include "device/process_settings.h"
#include "device/run_generator.h"

namespace autotrain {

/// LibTorch's global generator of the CPU, which is the program's. Where somebody gave it another seed within
/// the scope, it is put back at the end, and that is told: a run does not draw from it. What was drawn from
/// it, in callbacks and in threads of the program, stays drawn.
class ProgramsGenerator {
 public:
  ProgramsGenerator();
  ~ProgramsGenerator();
  ProgramsGenerator(const ProgramsGenerator&) = delete;
  ProgramsGenerator& operator=(const ProgramsGenerator&) = delete;

 private:
  uint64_t seed_;
  torch::Tensor state_;
};

/// A call that changes the process as a run's does and cannot be made beside one: a sweep of a program's own
/// code.
class CallAlone {
 public:
  /// @throws Error(kUsage) naming `what` while a call into a trainer or another one such as this is under
  /// way, in whatever thread.
  explicit CallAlone(const char* what);
  ~CallAlone();
  CallAlone(const CallAlone&) = delete;
  CallAlone& operator=(const CallAlone&) = delete;
};

/// A call into a trainer. While it lasts, the run's settings of the process are in force and the calling
/// thread works for the run; when it ends, on any way out, the process is as the caller left it, and what the
/// run had set is kept for the next call. Calls of one thread nest.
class CallScope {
 public:
  /// @param mine the run's settings; nothing before its first call. @param own the run's generator of the
  /// CPU.
  /// @param gpus it may be on one.
  /// @throws Error(kUsage) while another thread is in such a call.
  CallScope(std::optional<ProcessSettings>& mine, const at::Generator& own, bool gpus);
  ~CallScope();
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;

 private:
  std::optional<ProcessSettings>& mine_;
  const bool gpus_;
  const ProcessSettings callers_;
  const c10::InferenceMode no_inference_{false};
  const at::AutoGradMode with_gradients_{true};
  const ThreadWork work_{true};
  const ProgramsGenerator programs_;
  const RunGeneratorScope generator_;
};

}  // namespace autotrain
