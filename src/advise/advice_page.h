#pragma once

#include <filesystem>
#include <vector>

#include "advise/advice.h"
#include "report/page.h"

namespace autotrain {

/// The tables of advice, most important first; those that would be empty are left out.
std::vector<page::Table> tables_of(const Advice& advice);

/// The whole advice on one page: verdict, time and samples over the batch with the run's own, the knee and
/// the noise scale marked, what goes with the change, devices, and what was verified.
page::Page advice_page(const Advice& advice);

/// Writes advice.json and advice.html. @return the files. @throws Error(kInputOutput).
std::vector<std::filesystem::path> write_advice(const Advice& advice, const std::filesystem::path& folder);

}  // namespace autotrain
