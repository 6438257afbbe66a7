#pragma once

#include <string_view>

namespace autotrain::page {

/// The text of a file that every page is made of (src/report/page, and Chart.js), as it was when the program
/// was built; empty when there is none of that name.
std::string_view part(std::string_view name);

}  // namespace autotrain::page
