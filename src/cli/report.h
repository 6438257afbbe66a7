#pragma once

#include "autotrain/error.h"
#include "cli/options.h"

namespace autotrain {

/// `autotrain report`: draws the pages of folders anew and prints which files it wrote.
ExitCode report_command(const Options& options);

}  // namespace autotrain
