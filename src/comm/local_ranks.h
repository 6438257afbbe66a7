#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "autotrain/error.h"

namespace autotrain {

/// The work of one rank in its process. It returns the process's exit code; an Error that it throws gives the
/// code of that Error.
using RankWork = std::function<int(int64_t rank)>;

/// The file that takes what a rank prints. The first rank's may be empty: it prints where this process does.
using RankLogs = std::function<std::filesystem::path(int64_t rank)>;

/// How ranks ended: with the code of the first one to fail, and what is to be said of it.
struct RanksEnd {
  ExitCode code = ExitCode::kDone;
  std::string text = {};  ///< lines for people; "" where the first rank has said all
};

/// Does the work as several ranks, which are processes of this machine, and watches over them: signals are
/// passed on, and where one fails the others get their time to end and are killed after it.
///
/// This process starts copies of itself: Child says what it must not have done before.
RanksEnd run_ranks(int64_t ranks, const RankWork& work, const RankLogs& log_of);

}  // namespace autotrain
