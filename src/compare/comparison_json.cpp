#include <algorithm>

#include "base/json.h"
#include "base/text.h"
#include "compare/comparison.h"
#include "report/figures_json.h"
#include "report/metrics_file.h"

namespace autotrain {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const Spread& s) {
  return {{"mean", finite_or_null(s.mean)}, {"deviation", finite_or_null(s.deviation)}, {"count", s.count}};
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

Json to_json(const RecipeFigures& r, const std::string& label, bool has_target) {
  Json json = {{"label", label},
               {"runs", r.runs},
               {"failed", r.failed},
               {"unfinished", r.unfinished},
               {"plan", r.plan},
               {"final", to_json(r.final)},
               {"at_equal_samples", to_json(r.at_samples)},
               {"at_equal_seconds", to_json(r.at_seconds)},
               {"at_equal_training_loss", to_json(r.at_training_loss)},
               {"samples_to_training_loss", to_json(r.samples_to_training_loss)},
               {"to_target", nullptr},
               {"samples_per_second", to_json(r.samples_per_second)},
               {"peak_bytes", to_json(r.peak_bytes)},
               {"training_seconds", to_json(r.training_seconds)},
               {"generalisation_gap", Json::object()},
               {"sharpness", Json::object()},
               {"curve", Json::array()}};
  if (has_target) {
    json["to_target"] = {{"updates", to_json(r.target_updates)},
                         {"samples", to_json(r.target_samples)},
                         {"seconds", to_json(r.target_seconds)}};
  }
  for (const auto& [name, gap] : r.gaps) json["generalisation_gap"][name] = to_json(gap);
  for (size_t i = 0; i < r.sharpness.size(); ++i)
    json["sharpness"][sharpness_figures()[i].name] = to_json(r.sharpness[i]);
  for (const BandPoint& point : r.curve) json["curve"].push_back(to_json(point));
  return json;
}

Json to_json(const Difference& d, const std::vector<std::string>& labels) {
  return {{"a", labels[d.a]},
          {"b", labels[d.b]},
          {"at_equal", to_string(d.axis)},
          {"b_minus_a", finite_or_null(d.mean)},
          {"low", finite_or_null(d.interval.low)},
          {"high", finite_or_null(d.interval.high)},
          {"p", finite_or_null(d.p)},
          {"p_holm", finite_or_null(d.p_holm)},
          {"b_is", to_string(d.verdict)},
          {"runs_needed", or_null(d.runs_needed)}};
}

Json to_json(const std::vector<DifferingKey>& keys) {
  Json json = Json::array();
  for (const DifferingKey& key : keys) json.push_back({{"path", key.path}, {"values", key.values}});
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
  return {{"recipe", run.recipe},
          {"seed", run.seed},
          {"share", run.share},
          {"failure", run.failure.empty() ? Json(nullptr) : Json(run.failure)},
          {"code", run.code},
          {"plan", run.plan},
          {"samples_per_second", finite_or_null(run.samples_per_second)},
          {"peak_bytes", run.peak_bytes},
          {"curve", curve_to_json(run.curve)},
          {"losses", loss_sums_to_json(run.losses)},
          {"training_set", figures_to_json(run.training_set)},
          {"sharpness", run.sharpness ? sharpness_to_json(*run.sharpness) : Json(nullptr)},
          {"figure_kinds", kinds_to_json(run.figure_kinds)}};
}

RunOutcome outcome_from_json(const Json& json) {
  RunOutcome run{.recipe = json.at("recipe"),
                 .seed = json.at("seed"),
                 .share = json.value("share", 1.0),
                 .failure = json.at("failure").is_null() ? "" : json.at("failure").get<std::string>(),
                 .code = json.at("code"),
                 .plan = json.at("plan"),
                 .samples_per_second = number_or_nan(json.at("samples_per_second")),
                 .peak_bytes = json.at("peak_bytes"),
                 .curve = curve_from_json(json.at("curve"))};
  run.losses = loss_sums_from_json(json.value("losses", Json::array()));
  if (const Json sharpness = json.value("sharpness", Json()); !sharpness.is_null())
    run.sharpness = sharpness_from_json(sharpness);
  run.training_set = numbers_of(json.at("training_set"));
  run.figure_kinds = kinds_from_json(json.at("figure_kinds"));
  return run;
}

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
  for (const Difference& d : c.differences) json["differences"].push_back(to_json(d, c.terms.recipes));
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
  for (const Json& rung : json.value("halving", Json::array())) terms.rungs.push_back(rung_from_json(rung));
  check_sizes(terms, json);
  std::vector<RunOutcome> runs;
  for (const Json& run : json.at("runs")) runs.push_back(outcome_from_json(run));
  return analyse(std::move(terms), std::move(runs));
}

}  // namespace autotrain
