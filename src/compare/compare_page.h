#pragma once

#include <filesystem>
#include <vector>

#include "compare/comparison.h"
#include "report/page.h"

namespace autotrain {

/// Curves with their spread over the seeds, and all tables.
page::Page comparison_page(const Comparison& comparison);

/// Writes compare.json, compare.csv and report.html. @return the files.
std::vector<std::filesystem::path> write_comparison(const Comparison& comparison,
                                                    const std::filesystem::path& folder);

/// Whether a folder holds a comparison that ended.
bool is_comparison_folder(const std::filesystem::path& folder);

/// What compare left in a folder. @throws Error(kMissingFile, kBadData).
Comparison read_comparison(const std::filesystem::path& folder);

/// Writes the files anew from compare.json.
std::vector<std::filesystem::path> draw_comparison(const std::filesystem::path& folder);

}  // namespace autotrain
