#pragma once

#include "autotrain/registry.h"

namespace autotrain {

/// The whole command line (train, plan, verify, compare, sweep, …; `--help` lists it), for a program with
/// parts of its own, which recipes name. It is `main`: it sets up the process (signals, descriptors) as a
/// program does. Link `autotrain::program`.
/// @return the exit code, as docs/formats.md lists them.
int run_main(int argc, char** argv, const Registry& registry = {});

}  // namespace autotrain
