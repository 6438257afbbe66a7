#pragma once

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "cli/options.h"
#include "report/json_text.h"

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

/// Prints the JSON, with the folder in it, or the text, whichever was asked for.
inline void print_study(const Options& options, nlohmann::ordered_json json, const std::string& text,
                        const std::filesystem::path& folder) {
  json["folder"] = folder.string();
  std::fputs((options.json ? text_of_json(json) : text).c_str(), stdout);
}

}  // namespace autotrain
