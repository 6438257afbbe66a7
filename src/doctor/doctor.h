#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "doctor/trial.h"
#include "measure/machine.h"

namespace autotrain {

/// One change that was tried.
struct Cure {
  std::string cause;  ///< what it would be a cure for; larger_batch: none, for it learns otherwise
  std::vector<std::string> settings;  ///< as `--set` takes them
  Trial after;                        ///< the slower of its trials, where it was tried twice
  double fastest = 0;                 ///< samples per second of the faster one
  double gain = 0;                    ///< samples per second, after ÷ before; 0: it failed
  std::string failure = {};           ///< why
};

/// What bounds a recipe on this machine, and what helps.
struct Diagnosis {
  BatchPlan plan;
  Trial before;               ///< the faster of its trials
  double slowest_before = 0;  ///< samples per second of the slower one
  LoadingFigures loading;
  std::optional<StepProfile> step = {};
  /// storage | decode | copy | prefetch | threads | loader_threads | micro_batch | smaller_micro_batch |
  /// memory_format | launch_overhead | compute
  std::string cause;
  std::string verdict;      ///< the same in a sentence
  std::vector<Cure> cures;  ///< in order of gain
};

struct DoctorOptions {
  std::filesystem::path config;
  std::vector<std::string> overrides;
  double seconds = 3;  ///< of each trial

  /// Told before each step what is done.
  std::function<void(const std::string&)> progress = [](const std::string&) {};
};

/// How fast micro-batches of one size are trained on.
struct SizeRate {
  int64_t micro_batch = 0;
  double samples_per_second = 0;
  double seconds() const { return static_cast<double>(micro_batch) / samples_per_second; }
};

/// Whether a micro-batch takes nearly the same time with clearly fewer samples: then starting operators, and
/// reading weights, costs what it costs, and computing next to nothing. Clearly more time for fewer samples
/// is the time of something else.
bool bound_by_launches(const SizeRate& whole, const SizeRate& smaller);

/// Whether training may wait for loading, by samples per second: alone it is less than twice as fast.
bool loading_may_hold_back(double loading_rate, double training_rate);

/// What gains or names a cause is tried twice, and so is the recipe as it is: what is said holds of either
/// trial.
/// @throws Error as loading, planning and training do: what would stop a run stops the doctor.
Diagnosis diagnose(const DoctorOptions& options, const MachineFigures& machine);

}  // namespace autotrain
