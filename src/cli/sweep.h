#pragma once

#include "autotrain/error.h"
#include "cli/options.h"

namespace autotrain {

/// `autotrain sweep`: batch size against latency, throughput and memory.
ExitCode sweep_command(const Options& options);

}  // namespace autotrain
