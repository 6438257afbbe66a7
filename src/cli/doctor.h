#pragma once

#include "autotrain/error.h"
#include "cli/options.h"

namespace autotrain {

/// `autotrain doctor`: measures the machine and, with a recipe, says what bounds it and what helps.
ExitCode doctor_command(const Options& options);

}  // namespace autotrain
