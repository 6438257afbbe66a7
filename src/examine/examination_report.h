#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "examine/examination.h"

namespace autotrain {

/// For a terminal.
std::string text_of(const Examination& found);

/// The doubts and faults of it alone.
std::string doubts_text_of(const Examination& found);

nlohmann::ordered_json json_of(const Examination& found);

/// One HTML file. @param subtitle the recipe's path.
std::string page_of(const Examination& found, const std::string& subtitle);

/// "2 faults, 3 warnings in 1.2 s": the last line.
std::string closing_line(const Examination& found);

}  // namespace autotrain
