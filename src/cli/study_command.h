#pragma once

#include <filesystem>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "cli/options.h"

namespace autotrain {

/// What a study says on the terminal.
inline log::Level log_level(const Options& options) {
  if (options.verbose) return log::Level::kDebug;
  return options.json || options.quiet ? log::Level::kWarning : log::Level::kInfo;
}

/// Does the study's work; an interruption then names the folder to go on with.
template <class Work>
auto saying_how_to_go_on(const std::filesystem::path& folder, const Work& work) {
  try {
    return work();
  } catch (const Error& error) {
    if (error.code() != ExitCode::kInterrupted) throw;
    throw Error(error.code(), error.where(), error.problem(),
                "the same command with --output " + folder.string() + " goes on");
  }
}

}  // namespace autotrain
