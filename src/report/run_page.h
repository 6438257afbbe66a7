#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "report/page.h"
#include "report/run_history.h"

namespace autotrain {

/// What a run's page tells that is not in the files of its folder.
struct RunPageExtras {
  std::vector<std::string> plan_sentences = {};             ///< the plan in words; empty: there is none
  std::vector<std::vector<std::string>> changed_keys = {};  ///< of the recipe: {key, default, value}
};

/// The page of a run from what its folder holds; a file that is missing or damaged is named where its part
/// would stand.
/// @param history of the folder's metrics.jsonl.
page::Page run_page(const std::filesystem::path& folder, const RunHistory& history,
                    const RunPageExtras& extras);

/// The training of several runs in the same plots.
struct NamedHistory {
  std::string name = {};
  RunHistory history = {};
};
page::Page together_page(const std::vector<NamedHistory>& runs);

}  // namespace autotrain
