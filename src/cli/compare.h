#pragma once

#include "autotrain/error.h"
#include "cli/options.h"

namespace autotrain {

/// `autotrain compare`: trains recipes with the same seeds and prints what differs.
ExitCode compare_command(const Options& options);

/// `autotrain sweep --mode converge`: the same over batch sizes of one recipe.
ExitCode converge_command(const Options& options);

}  // namespace autotrain
