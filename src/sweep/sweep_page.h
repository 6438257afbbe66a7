#pragma once

#include <filesystem>
#include <vector>

#include "report/page.h"
#include "sweep/sweep.h"

namespace autotrain {

/// Latency, throughput, memory and roofline of a sweep, with predicted and measured knees.
page::Page sweep_page(const Sweep& sweep);

/// Writes sweep.json, sweep.csv and report.html. @return the files.
std::vector<std::filesystem::path> write_sweep(const Sweep& sweep, const std::filesystem::path& folder);

/// Whether a folder holds a sweep that ended.
bool is_sweep_folder(const std::filesystem::path& folder);

/// Writes the files anew from sweep.json. @throws Error(kBadData) when it is none.
std::vector<std::filesystem::path> draw_sweep(const std::filesystem::path& folder);

}  // namespace autotrain
