#pragma once

#include "autotrain/error.h"
#include "cli/options.h"

namespace autotrain {

/// `autotrain verify`: runs the proofs and prints their verdicts.
ExitCode verify_command(const Options& options);

}  // namespace autotrain
