#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "report/page.h"

namespace autotrain {

/// Writes a sweep's NAME.json, NAME.csv and report.html into its folder. @return their paths.
std::vector<std::filesystem::path> write_sweep_files(const std::filesystem::path& folder,
                                                     const std::string& name,
                                                     const nlohmann::ordered_json& json,
                                                     const std::string& csv, const page::Page& page);

/// Draws a sweep again from its JSON file. @param what the file is of: "sweep of decoding". @param command
/// that would write it anew. @param draw takes the JSON and gives the paths of what it wrote.
/// @throws Error(kBadData) where the JSON is of something else.
std::vector<std::filesystem::path> draw_again(
    const std::filesystem::path& file, const std::string& what, const std::string& command,
    const std::function<std::vector<std::filesystem::path>(const nlohmann::ordered_json&)>& draw);

}  // namespace autotrain
