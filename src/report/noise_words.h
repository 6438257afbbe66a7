#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "autotrain/report.h"

namespace autotrain {

/// What the two are called wherever they stand beside each other.
inline constexpr const char* kNoiseScale = "gradient noise scale";
inline constexpr const char* kPreconditionedNoiseScale = "… in the optimizer's metric";

/// "410 samples [330, 520]: …"; "≥ 330 samples: …" where only that is known; "≤ 40.7 samples: …" where the
/// estimate is 0.
std::string in_words(const NoiseScale& scale);

/// Says the same in figures alone: "410 [330, 520]", "≥ 330", or "≤ 40.7".
std::string in_brief(const NoiseScale& scale);

/// {"samples": 410.0, "low": 330.0, "high": 520.0}; null is what is not known, of all where it is nothing.
nlohmann::ordered_json noise_scale_to_json(const std::optional<NoiseScale>& scale);

/// Nothing where there is no lower bound.
std::optional<NoiseScale> noise_scale_from_json(const nlohmann::ordered_json& json);

}  // namespace autotrain
