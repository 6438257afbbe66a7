#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "report/page.h"
#include "report/run_history.h"

namespace autotrain {

/// The plots of a run's page, each from what the run's files say. Those without any number are left out.

/// Memory and throughput of the search's trials. @param plan plan.json.
std::vector<page::Chart> trial_charts(const nlohmann::ordered_json& plan);

/// Loss, figures, learning rate, gradient norm, loss scale and throughput, with the run's events as marks; x
/// in updates, samples or seconds.
std::vector<page::Chart> training_charts(const RunHistory& history);

/// Memory of the run beside its budget. @param plan plan.json; without a budget there, none is shown.
std::vector<page::Chart> memory_charts(const RunHistory& history, const nlohmann::ordered_json& plan);

/// @param telemetry the columns of telemetry.jsonl.
std::vector<page::Chart> telemetry_charts(const Columns& telemetry);

}  // namespace autotrain
