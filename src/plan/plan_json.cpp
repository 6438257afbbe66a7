#include "plan/plan_json.h"

#include "base/json.h"
#include "plan/plan_enums.h"
#include "recipe/recipe_enums.h"

namespace autotrain {
namespace {

using Json = nlohmann::ordered_json;

template <class Probe, class Visit>
void visit_probe(Probe& p, const Visit& visit) {
  visit("micro_batch", p.micro_batch);
  visit("peak_bytes", p.peak_bytes);
  visit("allocated_bytes", p.allocated_bytes);
  visit.added("outside_bytes", p.outside_bytes);
  visit.added("refused_bytes", p.refused_bytes);
  visit("typical_bytes", p.typical_bytes);
  visit.added("growth_bytes", p.growth_bytes);
  visit("fill", p.fill);
  visit("seconds", p.seconds);
  visit("samples_per_second", p.samples_per_second);
  visit.added("pass_samples_per_second", p.pass_samples_per_second);
  visit.added("load_seconds_per_sample", p.load_seconds_per_sample);
  visit("samples", p.samples);
  visit("weight", p.weight);
  visit("confirmed", p.confirmed);
  visit.added("recompute", p.recompute);
  visit("outcome", p.outcome);
}

template <class Search, class Visit>
void visit_search(Search& s, const Visit& visit) {
  visit("strategy", s.strategy);
  visit("micro_batch", s.micro_batch);
  visit("fill", s.fill);
  visit("peak_bytes", s.peak_bytes);
  visit("reason", s.reason);
  visit.added("fast_micro_batch", s.fast_micro_batch);
  visit("confirmed", s.confirmed);
  visit("from_cache", s.from_cache);
  visit("seconds", s.seconds);
  visit("samples", s.samples);
}

template <class Rate, class Visit>
void visit_learning_rate(Rate& lr, const Visit& visit) {
  visit("base", lr.base);
  visit("reference_batch", lr.reference_batch);
  visit("rule", lr.rule);
  visit("scaled", lr.scaled);
}

template <class Stage, class Visit>
void visit_stage(Stage& s, const Visit& visit) {
  visit("samples", s.samples);
  visit("effective_batch", s.effective_batch);
  visit("window", s.window);
  visit("lr", s.lr);
}

template <class Plan, class Visit>
void visit_plan(Plan& p, const Visit& visit) {
  visit("device", p.device);
  visit("device_name", p.device_name);
  visit("precision", p.precision);
  visit.added("memory_format", p.memory_format);
  visit("world_size", p.world_size);
  visit.added("lanes", p.lanes);
  visit("budget_bytes", p.budget_bytes);
  visit("budget_source", p.budget_source);
  visit.added("others_bytes", p.others_bytes);
  visit("effective_batch", p.effective_batch);
  visit("micro_batch", p.micro_batch);
  visit("window", p.window);
  visit.added("least_effective_batch", p.least_effective_batch);
  visit("cut", p.cut);
  visit("fill", p.fill);
  visit("typical_fill", p.typical_fill);
  visit("peak_bytes", p.peak_bytes);
  visit("confirmed", p.confirmed);
  visit("samples_per_second", p.samples_per_second);
  visit("evaluation_micro_batch", p.evaluation_micro_batch);
  visit("loss_factor", p.loss_factor);
  visit.added("cuda_graphs", p.cuda_graphs);
  visit.added("cuda_graphs_why", p.cuda_graphs_why);
  visit.added("recompute", p.recompute);
  visit.added("recompute_why", p.recompute_why);
  visit("split_check", p.split_check);
}

}  // namespace

Json probe_to_json(const ProbeRecord& probe) {
  Json json;
  visit_probe(probe, FieldWriter{json});
  json["fits"] = probe.fits();
  return json;
}

ProbeRecord probe_from_json(const Json& json) {
  ProbeRecord probe;
  visit_probe(probe, FieldReader{json});
  return probe;
}

Json plan_to_json(const BatchPlan& plan) {
  Json json, lr, search;
  visit_plan(plan, FieldWriter{json});
  json["target"] = {plan.target_low, plan.target_high};
  visit_learning_rate(plan.lr, FieldWriter{lr});
  visit_search(plan.search, FieldWriter{search});
  search["probes"] = Json::array();
  for (const ProbeRecord& probe : plan.search.probes) search["probes"].push_back(probe_to_json(probe));
  json["lr"] = std::move(lr);
  json["stages"] = Json::array();
  for (const PlanStage& stage : plan.stages) visit_stage(stage, FieldWriter{json["stages"].emplace_back()});
  json["search"] = std::move(search);
  json["origin"] = Json::object();
  for (const auto& [key, origin] : plan.origin) json["origin"][key] = to_string(origin);
  return json;
}

BatchPlan plan_from_json(const Json& json) {
  BatchPlan plan;
  visit_plan(plan, FieldReader{json});
  json.at("target").at(0).get_to(plan.target_low);
  json.at("target").at(1).get_to(plan.target_high);
  visit_learning_rate(plan.lr, FieldReader{json.at("lr")});
  visit_search(plan.search, FieldReader{json.at("search")});
  for (const Json& row : json.at("search").at("probes")) plan.search.probes.push_back(probe_from_json(row));
  for (const Json& row : json.value("stages", Json::array())) {
    visit_stage(plan.stages.emplace_back(), FieldReader{row});
  }
  for (const auto& [key, word] : json.at("origin").items()) {
    plan.origin[key] = parse_enum<Origin>(word.get<std::string>()).value_or(Origin::kDefault);
  }
  return plan;
}

}  // namespace autotrain
