#pragma once

#include <filesystem>
#include <vector>

#include "autotrain/recipe.h"
#include "report/run_page.h"

namespace autotrain {

/// Draws a run anew from what its folder holds, whatever became of it: report.html and the CSV files, as
/// `what` asks for. @return the files written. @throws Error(kInputOutput).
std::vector<std::filesystem::path> draw_run(const std::filesystem::path& folder, const ReportRecipe& what);

/// Whether a folder holds a run, or what is left of one.
bool is_run_folder(const std::filesystem::path& folder);

}  // namespace autotrain
