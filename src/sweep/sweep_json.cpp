#include "base/json.h"
#include "recipe/axes.h"
#include "recipe/recipe_enums.h"
#include "sweep/sweep.h"
#include "sweep/sweep_analysis.h"
#include "sweep/sweep_columns.h"

namespace autotrain {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const EndToEnd& e) {
  if (!e.failure.empty()) return {{"failure", e.failure}};
  Json json = {{"failure", nullptr}};
  json.update(json_of(end_to_end_columns(), e));
  return json;
}

EndToEnd end_to_end_from(const Json& j) {
  if (j.at("failure").is_string()) return {.failure = j.at("failure")};
  EndToEnd e;
  read_record(end_to_end_columns(), j, e);
  return e;
}

Json to_json(const SweepPoint& p, const SweepVariant& v) {
  if (!p.failure.empty()) return {{"batch", p.batch}, {"failure", p.failure}, {"code", p.code}};
  Json json = {{"batch", p.batch}, {"failure", nullptr}};
  json.update(json_of(point_columns(), p));
  json.update(json_of(memory_columns(), p.memory));
  const auto whole = v.end_to_end.find(p.batch);
  json["end_to_end"] = whole != v.end_to_end.end() ? to_json(whole->second) : Json(nullptr);
  return json;
}

SweepPoint point_from(const Json& j) {
  SweepPoint p{.batch = j.at("batch")};
  if (p.batch < 1) throw Json::other_error::create(501, "a batch has at least one sample", &j);
  if (j.at("failure").is_string()) {
    p.failure = j.at("failure");
    p.code = j.value("code", 0);
    return p;
  }
  read_record(point_columns(), j, p);
  read_what_is_there(memory_columns(), j, p.memory);
  return p;
}

Json to_json(const Knee& k) {
  return {{"batch", k.batch},
          {"reached", k.reached},
          {"below_range", k.below_range},
          {"flat_seconds", k.flat_seconds},
          {"flat_batch", k.flat_batch},
          {"best_samples_per_second", k.best_rate},
          {"best_batch", k.best_batch}};
}

Json to_json(const KneeExplanation& e) {
  return {{"ratio", e.ratio}, {"slower", e.slower}, {"efficiency", e.efficiency}, {"calls", e.calls}};
}

Json to_json(const Sweep& sweep, const SweepVariant& v) {
  Json points = Json::array();
  for (const SweepPoint& point : v.points) points.push_back(to_json(point, v));
  return {{"value", v.value},
          {"failure", v.failure.empty() ? Json(nullptr) : Json(v.failure)},
          {"precision", v.precision},
          {"flops_per_sample", v.flops_per_sample},
          {"weight_bytes", v.weight_bytes},
          {"peak_flops_per_second", v.roof.flops_per_second},
          {"weight_read_bytes_per_second", v.roof.bytes_per_second},
          {"operator_seconds", v.operator_seconds},
          {"predicted_batch", v.predicted},
          {"predicted_batch_elsewhere", v.predicted_elsewhere},
          {"knee", v.knee ? to_json(*v.knee) : Json(nullptr)},
          {"measured_to_predicted", v.explanation ? to_json(*v.explanation) : Json(nullptr)},
          {"figures", v.figures},
          {"sentences", sentences_of(sweep, v)},
          {"points", std::move(points)},
          {"counted_samples", v.counted_samples},
          {"operators", v.counted},
          {"products_at_best_throughput", v.products},
          {"machine", v.machine},
          {"largest", v.largest ? to_json(*v.largest) : Json(nullptr)}};
}

SweepVariant variant_from(const Json& j) {
  SweepVariant v{.value = j.at("value")};
  if (j.at("failure").is_string()) v.failure = j.at("failure");
  for (const Json& point : j.at("points")) {
    v.points.push_back(point_from(point));
    const Json whole = point.value("end_to_end", Json(nullptr));
    if (whole.is_object()) v.end_to_end[v.points.back().batch] = end_to_end_from(whole);
  }
  v.precision = j.at("precision");
  v.flops_per_sample = j.at("flops_per_sample");
  v.weight_bytes = j.at("weight_bytes");
  v.roof.bytes_per_second = j.at("weight_read_bytes_per_second");
  v.operator_seconds = j.at("operator_seconds");
  v.figures = numbers_of(j.at("figures"));
  v.counted_samples = j.at("counted_samples");
  v.counted = j.at("operators");
  v.operators = v.counted.size();
  v.products = j.at("products_at_best_throughput");
  v.machine = j.at("machine");
  const Json largest = j.value("largest", Json(nullptr));
  if (largest.is_object()) v.largest = largest_from_json(largest);
  return v;
}

}  // namespace

Json to_json(const Sweep& sweep) {
  Json variants = Json::array();
  for (const SweepVariant& variant : sweep.variants) variants.push_back(to_json(sweep, variant));
  return {{"name", sweep.name},
          {"mode", to_string(sweep.mode)},
          {"key", sweep.key.empty() ? Json(nullptr) : Json(sweep.key)},
          {"latency_ms", or_null(sweep.latency_ms)},
          {"device_figures", sweep.device_figures.empty() ? Json(nullptr) : Json(sweep.device_figures)},
          {"unfinished", sweep.unfinished},
          {"variants", std::move(variants)}};
}

Sweep sweep_from_json(const Json& json) {
  Sweep sweep{.name = json.at("name")};
  sweep.mode = parse_enum<SweepMode>(json.at("mode").get<std::string>()).value();
  if (json.at("key").is_string()) sweep.key = json.at("key");
  sweep.unfinished = json.at("unfinished");
  sweep.latency_ms = optional_number(json.at("latency_ms"));
  const Json figures = json.value("device_figures", Json(nullptr));
  if (figures.is_string() && parse_device_figures(figures.get<std::string>())) sweep.device_figures = figures;
  for (const Json& variant : json.at("variants")) sweep.variants.push_back(variant_from(variant));
  analyse(sweep);
  return sweep;
}

}  // namespace autotrain
