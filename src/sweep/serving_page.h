#pragma once

#include <filesystem>
#include <vector>

#include "report/page.h"
#include "sweep/serving.h"

namespace autotrain {

/// Every rate before every way of serving.
page::Table serving_cells(const ServingVariant& variant);

/// Ways of serving with their capacities and, where there is a bound, the largest rates that hold it.
page::Table line_cells(const ServingSweep& sweep, const ServingVariant& variant);

page::Page serving_page(const ServingSweep& sweep);

/// Writes serving.json, serving.csv and report.html. @return the files.
std::vector<std::filesystem::path> write_serving(const ServingSweep& sweep,
                                                 const std::filesystem::path& folder);

/// Whether a folder holds a sweep under load.
bool is_serving_folder(const std::filesystem::path& folder);

/// Writes the files anew from serving.json. @throws Error(kBadData) when it is none.
std::vector<std::filesystem::path> draw_serving(const std::filesystem::path& folder);

}  // namespace autotrain
