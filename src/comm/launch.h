#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "comm/place.h"

namespace autotrain {

/// Who started the processes of a run.
enum class Launcher { kNone, kTorchrun, kSlurm, kOpenMpi, kHydra };

/// "none", "torchrun", "Slurm", "Open MPI", "MPICH or Intel MPI".
std::string to_string(Launcher launcher);

/// How this process was started as one of several.
struct Launch {
  Launcher by = Launcher::kNone;
  Place place = {};
  std::string meeting_host = {};
  int64_t meeting_port = 0;  ///< of the store where ranks meet
  bool agent_store = false;  ///< torchrun's agent serves the store, so that every rank is a client
  int64_t restart = 0;       ///< how often torchrun has started the ranks anew
  bool one_thread = false;   ///< torchrun set OMP_NUM_THREADS to 1, as it does where nobody has set it
};

/// The value of an environment variable.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

/// This process's own.
Environment process_environment();

/// The name of this machine.
std::string own_host();

/// Asks torchrun's variables, then Slurm's (of a job step: what `srun` starts), Open MPI's, and then those
/// that MPICH and Intel MPI share; one rank where none of them started more. @throws Error(kUsage) naming the
/// variable that is missing, is no number or contradicts another.
Launch detect_launch(const Environment& environment);

/// Holds a process group of the caller's own against what the launcher's variables say, if there are any.
/// @throws Error(kUsage) when they say another rank, or another number of ranks.
void check_group(const Environment& environment, int64_t rank, int64_t world);

/// The first host of Slurm's list: "node07" of "node[07-09,12],login1". Nothing of an empty one.
std::optional<std::string> first_slurm_host(const std::string& list);

/// Leaves the error where torchrun looks for it (TORCHELASTIC_ERROR_FILE), so that it prints ours as the root
/// cause instead of "exitcode 71". @return whether there was such a file and it could be written.
bool tell_torchrun(const Environment& environment, const std::string& message, int64_t seconds_since_1970);

}  // namespace autotrain
