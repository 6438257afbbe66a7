#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lr/race.h"
#include "report/page.h"

namespace autotrain {

/// A row for each stretch, and one of their means and spreads.
page::Table table_of(const LearningRateTest& test);

/// The answer: the line of a recipe, or why there is none.
std::string answer_of(const LearningRateTest& test);

/// What to know when one reads it, a sentence each.
std::vector<std::string> notes_of(const LearningRateTest& test);

/// The losses of a stretch as far as a plot shows them: those that diverge hide everything else.
std::vector<RatePoint> shown_points(const RateStretch& stretch);

page::Page page_of(const LearningRateReport& report);

/// Writes lr.json and lr.html into the folder.
void write_learning_rate(const LearningRateReport& report, const std::filesystem::path& folder);

}  // namespace autotrain
