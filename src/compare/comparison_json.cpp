#include <algorithm>

#include "base/json.h"
#include "base/text.h"
#include "compare/compare_columns.h"
#include "compare/compare_tables.h"
#include "report/metrics_file.h"

namespace autotrain {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const Spread& s) {
  return {{"mean", finite_or_null(s.mean)},
          {"deviation", finite_or_null(s.deviation)},
          {"count", s.count},
          {"runs", s.runs}};
}

Json to_json(const Target& target) {
  return {{"figure", target.figure}, {"value", target.value}, {"at_most", target.at_most}};
}

Json to_json(const BandPoint& point) {
  Json json = {
      {"update", point.update}, {"samples", point.samples}, {"seconds", finite_or_null(point.seconds)}};
  json.update(to_json(point.figure));
  return json;
}

// Spreads over the seeds; those of the way to a target by themselves, where there is one.
void add_spreads(Json& json, const RecipeFigures& r, bool has_target) {
  const std::string prefix = "target_";
  json["to_target"] = has_target ? Json::object() : Json(nullptr);
  for (const Column<ComparedRun>& column : run_columns()) {
    const Json spread = to_json(spread_of(r, column.name));
    if (!column.name.starts_with(prefix))
      json[column.name] = spread;
    else if (has_target)
      json["to_target"][column.name.substr(prefix.size())] = spread;
  }
}

Json to_json(const RecipeFigures& r, const std::string& label, bool has_target) {
  Json json = {{"label", label},
               {"runs", r.runs},
               {"failed", r.failed},
               {"failed_share_low", r.failed_share.low},
               {"failed_share_high", r.failed_share.high},
               {"unfinished", r.unfinished},
               {"plan", r.plan},
               {"final", to_json(r.final)}};
  add_spreads(json, r, has_target);
  if (has_target) {
    json["to_target"]["reached"] = r.reached;
    json["to_target"]["reached_share_low"] = r.reached_share.low;
    json["to_target"]["reached_share_high"] = r.reached_share.high;
    json["to_target"]["restricted_samples"] = to_json(r.restricted);
    json["to_target"]["olympic_samples"] = finite_or_null(r.olympic_samples);
  }
  json.update(
      {{"generalisation_gap", Json::object()}, {"sharpness", Json::object()}, {"curve", Json::array()}});
  for (const auto& [name, gap] : r.gaps) json["generalisation_gap"][name] = to_json(gap);
  for (size_t i = 0; i < r.sharpness.size(); ++i)
    json["sharpness"][sharpness_figures()[i].name] = to_json(r.sharpness[i]);
  for (const BandPoint& point : r.curve) json["curve"].push_back(to_json(point));
  return json;
}

Json to_json(const std::vector<DifferingKey>& keys) {
  Json json = Json::array();
  for (const DifferingKey& key : keys) json.push_back({{"path", key.path}, {"values", key.values}});
  return json;
}

Json to_json(const BestRecipe& best, const ComparisonTerms& terms) {
  Json json = {{"recipe", best.recipe ? Json(terms.recipes[*best.recipe]) : Json(nullptr)},
               {"alike", Json::array()},
               {"left_out", Json::array()},
               {"why_none", best.why_none.empty() ? Json(nullptr) : Json(best.why_none)}};
  for (const size_t other : best.alike) json["alike"].push_back(terms.recipes[other]);
  for (const auto& [other, why] : best.left_out)
    json["left_out"].push_back({{"recipe", terms.recipes[other]}, {"why", why}});
  return json;
}

std::vector<DifferingKey> keys_from_json(const Json& json) {
  std::vector<DifferingKey> keys;
  for (const Json& key : json) keys.push_back({key.at("path"), key.at("values")});
  return keys;
}

Json to_json(const Rung& rung) {
  Json json = {{"share", rung.share}, {"medians", Json::array()}};
  for (const double median : rung.medians) json["medians"].push_back(finite_or_null(median));
  return json;
}

Rung rung_from_json(const Json& json) {
  Rung rung{.share = json.at("share")};
  for (const Json& median : json.at("medians")) rung.medians.push_back(number_or_nan(median));
  return rung;
}

// Checks the sizes that other functions take for granted.
void check_sizes(const ComparisonTerms& terms, const Json& json) {
  const size_t recipes = terms.recipes.size();
  const auto whole = [&](const std::vector<DifferingKey>& of) {
    return std::ranges::all_of(of, [&](const DifferingKey& key) { return key.values.size() == recipes; });
  };
  const bool keys = whole(terms.differing_keys) && whole(terms.axes);
  const bool pairs = std::ranges::all_of(
      terms.pairs, [&](const auto& pair) { return pair.first < recipes && pair.second < recipes; });
  const bool rungs =
      std::ranges::all_of(terms.rungs, [&](const Rung& rung) { return rung.medians.size() == recipes; });
  if (!keys || !pairs || !rungs)
    throw Json::other_error::create(501, "names recipes that are not there", &json);
}

}  // namespace

Json outcome_to_json(const RunOutcome& run) {
  return json_of(outcome_columns(), run);
}

RunOutcome outcome_from_json(const Json& json) {
  RunOutcome run;
  read_record(outcome_columns(), json, run);
  return run;
}

namespace {

Json to_json(const Tuning& tuning) {
  Json json = {{"key", tuning.key}, {"seed", tuning.seed}, {"recipes", Json::array()}};
  for (const TunedRecipe& recipe : tuning.recipes) {
    Json tried = Json::array();
    for (const TunedValue& each : recipe.tried)
      tried.push_back({{"value", each.value}, {"figure", finite_or_null(each.figure)}});
    json["recipes"].push_back({{"tried", tried}, {"best", recipe.best}, {"at_edge", recipe.at_edge}});
  }
  return json;
}

Tuning tuning_from_json(const Json& json) {
  Tuning tuning{.key = json.at("key"), .seed = json.at("seed")};
  for (const Json& recipe : json.at("recipes")) {
    TunedRecipe& tuned =
        tuning.recipes.emplace_back(TunedRecipe{.best = recipe.at("best"), .at_edge = recipe.at("at_edge")});
    for (const Json& each : recipe.at("tried"))
      tuned.tried.push_back({.value = each.at("value"), .figure = number_or_nan(each.at("figure"))});
  }
  return tuning;
}

Json to_json(const std::vector<TestReading>& readings, const ComparisonTerms& terms) {
  Json json = Json::array();
  for (const TestReading& each : readings)
    json.push_back({{"recipe", terms.recipes[each.recipe]}, {"seed", each.seed}, {"figures", each.figures}});
  return json;
}

Json to_json(const Provenance& made) {
  return {{"command", made.command}, {"date", made.date}, {"program", made.program}, {"data", made.data}};
}

Provenance provenance_from_json(const Json& json) {
  return {.command = json.at("command"),
          .date = json.at("date"),
          .program = json.at("program"),
          .data = json.at("data").get<std::vector<std::map<std::string, std::string>>>()};
}

std::vector<TestReading> readings_from_json(const Json& json, const std::vector<std::string>& recipes) {
  std::vector<TestReading> readings;
  for (const Json& each : json) {
    const auto recipe = std::ranges::find(recipes, each.at("recipe").get<std::string>());
    if (recipe == recipes.end())
      throw Json::other_error::create(501, "the test data name a recipe that is not there", &json);
    readings.push_back({.recipe = static_cast<size_t>(recipe - recipes.begin()),
                        .seed = each.at("seed"),
                        .figures = numbers_of(each.at("figures"))});
  }
  return readings;
}

}  // namespace

Json comparison_to_json(const Comparison& c) {
  Json json = {{"machine", c.terms.machine},
               {"figure", c.terms.figure},
               {"lower_is_better", c.terms.lower_is_better},
               {"target", c.terms.target ? to_json(*c.terms.target) : Json(nullptr)},
               {"seeds", c.terms.seeds},
               {"equal_samples", c.samples},
               {"equal_seconds", c.seconds},
               {"equal_training_loss", finite_or_null(c.training_loss)},
               {"training_loss_window", c.loss_window},
               {"losses_are_alike", c.terms.equal_losses},
               {"paired", c.terms.paired},
               {"margin", c.terms.margin ? Json(*c.terms.margin) : Json(nullptr)},
               {"looks", c.terms.looks},
               {"so_far", c.terms.so_far},
               {"tuned", c.terms.tuned ? to_json(*c.terms.tuned) : Json(nullptr)},
               {"test", to_json(c.terms.test, c.terms)},
               {"provenance", to_json(c.terms.provenance)},
               {"level", verdict_level(c.terms)},
               {"recipes", Json::array()},
               {"pairs", c.terms.pairs},
               {"differences", Json::array()},
               {"differing_keys", Json::array()},
               {"warnings", c.terms.warnings},
               {"halving", Json::array()},
               {"axes", Json::array()},
               {"runs", Json::array()}};
  for (size_t i = 0; i < c.recipes.size(); ++i)
    json["recipes"].push_back(to_json(c.recipes[i], c.terms.recipes[i], c.terms.target.has_value()));
  for (const Difference& d : c.differences)
    json["differences"].push_back(json_of(difference_columns(), {c.terms, d}));
  json["best"] = to_json(c.best, c.terms);
  json["target_tests"] = Json::array();
  for (const TargetTest& test : c.target_tests)
    json["target_tests"].push_back({{"a", c.terms.recipes[test.a]},
                                    {"b", c.terms.recipes[test.b]},
                                    {"statistic", finite_or_null(test.statistic)},
                                    {"p", finite_or_null(test.p)},
                                    {"p_holm", finite_or_null(test.p_holm)}});
  json["notes"] = notes_of(c);
  json["differing_keys"] = to_json(c.terms.differing_keys);
  json["axes"] = to_json(c.terms.axes);
  for (const Rung& rung : c.terms.rungs) json["halving"].push_back(to_json(rung));
  for (const RunOutcome& run : c.runs) json["runs"].push_back(outcome_to_json(run));
  return json;
}

Comparison comparison_from_json(const Json& json) {
  ComparisonTerms terms{.machine = json.at("machine"),
                        .seeds = json.at("seeds"),
                        .figure = json.at("figure"),
                        .lower_is_better = json.at("lower_is_better"),
                        .pairs = json.at("pairs"),
                        .warnings = json.at("warnings")};
  for (const Json& recipe : json.at("recipes")) terms.recipes.push_back(recipe.at("label"));
  if (const Json& target = json.at("target"); !target.is_null())
    terms.target = Target{target.at("figure"), target.at("value"), target.at("at_most")};
  terms.differing_keys = keys_from_json(json.at("differing_keys"));
  terms.axes = keys_from_json(json.value("axes", Json::array()));
  terms.equal_losses = json.value("losses_are_alike", true);
  terms.paired = json.value("paired", false);
  if (const Json margin = json.value("margin", Json()); margin.is_number())
    terms.margin = margin.get<double>();
  terms.looks = json.value("looks", std::vector<int64_t>());
  terms.so_far = json.value("so_far", false);
  if (const Json tuned = json.value("tuned", Json()); !tuned.is_null()) terms.tuned = tuning_from_json(tuned);
  if (json.contains("provenance")) terms.provenance = provenance_from_json(json.at("provenance"));
  terms.test = readings_from_json(json.value("test", Json::array()), terms.recipes);
  for (const Json& rung : json.value("halving", Json::array())) terms.rungs.push_back(rung_from_json(rung));
  check_sizes(terms, json);
  std::vector<RunOutcome> runs;
  for (const Json& run : json.at("runs")) runs.push_back(outcome_from_json(run));
  return analyse(std::move(terms), std::move(runs));
}

}  // namespace autotrain
