#pragma once

#include <string>
#include <vector>

#include "lr/race.h"
#include "report/page.h"

namespace autotrain {

/// A row for each rate: its median at the end of each rung, and what became of it.
page::Table table_of(const RateRace& race);

/// What there is to say of a race, most important first.
std::vector<std::string> sentences_of(const RateRace& race);

/// The winner as a line of the recipe, with what it changes; or that there is none.
std::string answer_of(const RateRace& race);

page::Section section_of(const RateRace& race);

}  // namespace autotrain
