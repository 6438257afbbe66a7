#pragma once

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/json.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/common_options.h"
#include "report/live_text.h"
#include "study/study.h"

namespace autotrain {

/// " · 3 min 20 s left", or nothing where that is not known.
inline std::string left_text(const StudyProgress& progress) {
  return progress.seconds_left ? cat(" · ", format_seconds(*progress.seconds_left), " left") : "";
}

/// How the parts of a study ended.
struct Tally {
  size_t all = 0, failed = 0;
  std::string first_failure = {};
  int first_code = 0;

  void add(const std::string& failure, int code) {
    ++all;
    if (!failure.empty() && failed++ == 0) {
      first_failure = failure;
      first_code = code;
    }
  }

  /// The first failure's where nothing succeeded.
  ExitCode code() const { return all > 0 && failed == all ? exit_code_of(first_code) : ExitCode::kDone; }
};

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

/// The last line of a sweep: how many points, which failed, and where its page is.
inline std::string end_of_sweep(const Tally& tally, const std::filesystem::path& folder) {
  return cat(tally.all, tally.all == 1 ? " point" : " points",
             tally.failed > 0 ? cat(", of which ", tally.failed, " failed (", tally.first_failure, ")") : "",
             " · ", (folder / "report.html").string(), "\n");
}

/// Has a sweep say what it is about to do, how far it is, and what each measurement came to.
/// @param what "decoding".
template <class Request>
void tell_measurements(Request& request, LiveText& live, const std::string& what) {
  request.on_progress = [&live](const StudyProgress& p) {
    if (live.due()) live.show(cat(p.done, " of ", p.total, " measurements · ", p.running, left_text(p)));
  };
  request.on_result = [](const std::string& line) { log::info("sweep", line); };
  log::info("sweep",
            cat(what, " in ", request.folder.string(), "; its report.html grows with every measurement"));
}

/// Prints the JSON, with the folder in it, or the text, whichever was asked for.
inline void print_study(const PrintOptions& options, nlohmann::ordered_json json, const std::string& text,
                        const std::filesystem::path& folder) {
  json["folder"] = folder.string();
  std::fputs((options.json ? text_of_json(json) : text).c_str(), stdout);
}

}  // namespace autotrain
