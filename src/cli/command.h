#pragma once

#include <functional>

#include "autotrain/error.h"

namespace CLI {
class App;
}

namespace autotrain {

/// A command of the program, which is a file of this room with one of these and a place in commands.cpp.
struct Command {
  const char* name;      ///< its word on the command line
  const char* sentence;  ///< what it does, for --help
  const char* examples;  ///< for its own --help, two lines each: the command, and what it is for

  /// Declares what the command takes, and returns what runs it once the command line was read.
  /// The returned function throws Error(kUsage) about options that contradict each other.
  std::function<ExitCode()> (*declare)(CLI::App& app);
};

/// Reads the command line, and runs the command that it names or prints the help it asks for.
/// @throws Error(kUsage) with what is wrong and what to try; what the command throws.
ExitCode run_command_line(int argc, const char* const* argv);

}  // namespace autotrain
