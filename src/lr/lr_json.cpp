#include "lr/lr_json.h"

#include "autotrain/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "lr/lr_columns.h"
#include "plan/plan_json.h"
#include "report/metrics_file.h"
#include "study/study.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

using Json = nlohmann::ordered_json;

Json spread_to_json(const std::optional<RateSpread>& rates) {
  if (!rates) return nullptr;
  return {{"mean", rates->mean}, {"spread", rates->spread}};
}

Json racer_to_json(const RateRace& race, size_t number) {
  const Racer& racer = race.racers[number];
  Json medians = Json::array();
  for (const double median : racer.medians) medians.push_back(finite_or_null(median));
  return {{"lr", racer.lr},
          {"medians", std::move(medians)},
          {"outcome", to_string(fate_of(race, number))},
          {"diverged", racer.diverged},
          {"failed", racer.failed},
          {"told_apart_from_winner", or_null(racer.told_apart)},
          {"not_tested_because", racer.not_tested_because},
          {"contradicted", racer.contradicted},
          {"seeds_needed", or_null(racer.seeds_needed)}};
}

}  // namespace

Json to_json(const LearningRateTest& test) {
  const RateSuggestion& found = test.suggestion;
  Json stretches = Json::array();
  for (const RateStretch& stretch : test.stretches) stretches.push_back(json_of(stretch_columns(), stretch));
  return {{"recipe", test.name},
          {"updates", test.updates},
          {"samples", test.samples},
          {"effective_batch", test.plan.effective_batch},
          {"micro_batch", test.plan.micro_batch},
          {"precision", to_string(test.plan.precision)},
          {"clip_norm", or_null(test.clip_norm)},
          {"lr_rule", test.plan.lr.rule},
          {"reference_batch", test.plan.lr.reference_batch},
          {"own_lr", test.plan.lr.base},
          {"edge", spread_to_json(found.edge)},
          {"steepest", spread_to_json(found.steepest)},
          {"valley_end", spread_to_json(found.valley_end)},
          {"suggestion", or_null(found.lr)},
          {"recipe_lr", or_null(found.recipe_lr)},
          {"undetermined", found.why_not},
          {"stretches", std::move(stretches)},
          {"plan", plan_to_json(test.plan)},
          {"definition", test.definition}};
}

LearningRateTest learning_rate_test_from_json(const Json& json) {
  LearningRateTest test{.name = json.at("recipe"),
                        .plan = plan_from_json(json.at("plan")),
                        .clip_norm = optional_number(json.at("clip_norm")),
                        .updates = whole_number<int64_t>(json.at("updates")),
                        .samples = json.contains("samples") ? whole_number<int64_t>(json.at("samples")) : 0,
                        .definition = json.at("definition")};
  for (const Json& stretch : json.at("stretches"))
    read_record(stretch_columns(), stretch, test.stretches.emplace_back());
  test.suggestion = suggest(test.stretches, test.plan.lr, test.reading());
  return test;
}

Json to_json(const RateRace& race) {
  Json racers = Json::array();
  for (size_t i = 0; i < race.racers.size(); ++i) racers.push_back(racer_to_json(race, i));
  const std::vector<size_t> order = finishing_order(race);
  return {{"figure", race.figure},
          {"lower_is_better", race.lower_is_better},
          {"seeds", race.seeds},
          {"own_lr", race.own_lr},
          {"reference_batch", race.reference_batch},
          {"rates", race.grid},
          {"shares", race.shares},
          {"winner", order.empty() ? Json(nullptr) : Json(race.racers[order[0]].lr)},
          {"at_the_end", to_string(grid_end_of(race))},
          {"racers", std::move(racers)}};
}

Json to_json(const LearningRateReport& report) {
  Json json = report.test ? to_json(*report.test) : Json::object({{"recipe", report.name}});
  if (report.race) json["race"] = to_json(*report.race);
  return json;
}

std::optional<LearningRateTest> kept_test(const fs::path& folder, const Json& definition) {
  const fs::path path = folder / "lr.json";
  if (!fs::exists(path)) return std::nullopt;
  try {
    const Json json = Json::parse(read_file(path));
    if (!json.contains("stretches")) return std::nullopt;  // of a race alone
    const Json& whole = json.at("definition");
    Json kept;
    for (const auto& [key, value] : definition.items()) {
      if (whole.contains(key)) kept[key] = whole.at(key);
    }
    const std::string difference = difference_of(kept, definition);
    if (difference.empty()) return learning_rate_test_from_json(json);
    throw Error(ExitCode::kUsage, path.string(), cat("holds another range test: ", difference),
                "give another --output, or remove the file to have the test again");
  } catch (const nlohmann::json::exception& error) {
    throw Error(ExitCode::kBadData, path.string(), cat("is no range test: ", error.what()),
                "remove the file to have the test again");
  }
}

}  // namespace autotrain
