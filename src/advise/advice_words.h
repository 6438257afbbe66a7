#pragma once

#include <string>
#include <vector>

#include "advise/advice.h"

namespace autotrain {

/// "0.677 [0.623, 0.749]", "0.5 to 1" where only bounds are known, "1" where there is no interval.
std::string ranged_text(const Ranged& ranged);

/// The verdict in words, most important first: a sentence each.
std::vector<std::string> sentences_of(const Advice& advice);

}  // namespace autotrain
