#pragma once

#include <filesystem>
#include <vector>

#include "report/run_history.h"

namespace autotrain {

/// What a run's folder has as JSON, as tables beside it: metrics.csv (a row for each update),
/// evaluations.csv, telemetry.csv, probes.csv (the search's trials) and summary.csv; those of which there is
/// nothing are left out, the first two excepted. @return the files. @throws Error(kInputOutput).
std::vector<std::filesystem::path> write_csv_files(const std::filesystem::path& folder,
                                                   const RunHistory& history);

}  // namespace autotrain
