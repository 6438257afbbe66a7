#pragma once

#include <filesystem>
#include <optional>

#include "report/page.h"

namespace autotrain {

/// The folder below a run's with pictures of found boxes, and the file in it that says what they are:
/// {"update": 400, "least_score": 0.25, "pictures": [{"file", "image", "there", "found"}]}.
inline constexpr const char* kFoundBoxesFolder = "found_boxes";
inline constexpr const char* kFoundBoxesFile = "found_boxes.json";

/// The part of a run's page that shows them; nothing where there are none.
std::optional<page::Section> found_boxes_section(const std::filesystem::path& run);

}  // namespace autotrain
