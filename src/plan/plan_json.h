#pragma once

#include <nlohmann/json.hpp>

#include "autotrain/plan.h"

namespace autotrain {

/// A row of `search.probes` in plan.json, and back. @throws as plan_from_json.
nlohmann::ordered_json probe_to_json(const ProbeRecord& probe);
ProbeRecord probe_from_json(const nlohmann::ordered_json& json);

/// `plan.json` of the run folder.
nlohmann::ordered_json plan_to_json(const BatchPlan& plan);

/// The inverse. @throws nlohmann::json::exception when a field is missing or of the wrong type.
BatchPlan plan_from_json(const nlohmann::ordered_json& json);

}  // namespace autotrain
