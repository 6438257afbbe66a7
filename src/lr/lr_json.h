#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "lr/race.h"
#include "lr/suggestion.h"

namespace autotrain {

/// What a range test found, as `lr.json` has it.
nlohmann::ordered_json to_json(const LearningRateTest& test);

/// The inverse. @throws nlohmann::json::exception when a field is missing or of the wrong type.
LearningRateTest learning_rate_test_from_json(const nlohmann::ordered_json& json);

/// What a race showed, as `lr.json` has it under `race`.
nlohmann::ordered_json to_json(const RateRace& race);

/// What `lr.json` has: the test's fields, and the race's under `race`. One of them must be there.
nlohmann::ordered_json to_json(const LearningRateReport& report);

/// The range test that an earlier command left in a folder; nothing: none did.
/// @param definition of the test that is wanted, or those of its keys that must be the same.
/// @throws Error(kUsage) when it was another test, Error(kBadData) when the file cannot be read.
std::optional<LearningRateTest> kept_test(const std::filesystem::path& folder,
                                          const nlohmann::ordered_json& definition);

}  // namespace autotrain
