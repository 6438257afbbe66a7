#pragma once

#include <string>

#include "lr/race.h"

namespace autotrain {

/// What `autotrain lr` prints: everything, or only the answer. Of a test and a race, the race's is the answer
/// and stands last.
std::string lr_text(const LearningRateReport& report, bool everything);

}  // namespace autotrain
