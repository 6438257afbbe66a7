#include "recipe/words.h"
#include "study/sweep.h"
#include "study/sweep_analysis.h"

namespace autotrain {
namespace {

using Json = nlohmann::ordered_json;

template <class Number>
Json or_null(const std::optional<Number>& number) {
  return number ? Json(*number) : Json(nullptr);
}

std::optional<double> number_at(const Json& json, const char* key) {
  const Json& value = json.at(key);
  return value.is_null() ? std::nullopt : std::optional(value.get<double>());
}

Json to_json(const SweepPoint& p) {
  if (!p.failure.empty()) return {{"batch", p.batch}, {"failure", p.failure}, {"code", p.code}};
  return {{"batch", p.batch},
          {"failure", nullptr},
          {"p50_seconds", p.p50_seconds},
          {"p90_seconds", p.p90_seconds},
          {"p99_seconds", p.p99_seconds},
          {"median_half_width", or_null(p.half_width)},
          {"drift", p.drift},
          {"repeats", p.repeats},
          {"ended_by", p.ended_by},
          {"samples_per_second", p.samples_per_second},
          {"flops_per_second", p.flops_per_second},
          {"bytes_per_second", or_null(p.bytes_per_second)},
          {"peak_bytes", p.peak_bytes},
          {"fill", p.fill},
          {"allocator_retries", p.allocator_retries},
          {"swapped_bytes", p.swapped_bytes},
          {"major_faults", p.major_faults},
          {"copy_to_device_seconds", or_null(p.copy_to_device_seconds)},
          {"copy_to_host_seconds", or_null(p.copy_to_host_seconds)}};
}

SweepPoint point_from(const Json& j) {
  SweepPoint p{.batch = j.at("batch")};
  if (j.at("failure").is_string()) {
    p.failure = j.at("failure");
    p.code = j.value("code", 0);
    return p;
  }
  p.p50_seconds = j.at("p50_seconds");
  p.p90_seconds = j.at("p90_seconds");
  p.p99_seconds = j.at("p99_seconds");
  p.half_width = number_at(j, "median_half_width");
  p.drift = j.at("drift");
  p.repeats = j.at("repeats");
  p.ended_by = j.at("ended_by");
  p.samples_per_second = j.at("samples_per_second");
  p.flops_per_second = j.at("flops_per_second");
  p.bytes_per_second = number_at(j, "bytes_per_second");
  p.peak_bytes = j.at("peak_bytes");
  p.fill = j.at("fill");
  p.allocator_retries = j.at("allocator_retries");
  p.swapped_bytes = j.at("swapped_bytes");
  p.major_faults = j.at("major_faults");
  p.copy_to_device_seconds = number_at(j, "copy_to_device_seconds");
  p.copy_to_host_seconds = number_at(j, "copy_to_host_seconds");
  return p;
}

Json to_json(const Knee& k) {
  return {{"batch", k.batch},
          {"reached", k.reached},
          {"below_range", k.below_range},
          {"flat_seconds", k.flat_seconds},
          {"best_samples_per_second", k.best_rate}};
}

Json to_json(const KneeExplanation& e) {
  return {{"ratio", e.ratio}, {"slower", e.slower}, {"efficiency", e.efficiency}, {"calls", e.calls}};
}

Json to_json(const Sweep& sweep, const SweepVariant& v) {
  Json points = Json::array();
  for (const SweepPoint& point : v.points) points.push_back(to_json(point));
  return {{"value", v.value},
          {"failure", v.failure.empty() ? Json(nullptr) : Json(v.failure)},
          {"precision", v.precision},
          {"flops_per_sample", v.flops_per_sample},
          {"weight_bytes", v.weight_bytes},
          {"peak_flops_per_second", v.roof.flops_per_second},
          {"weight_read_bytes_per_second", v.roof.bytes_per_second},
          {"operator_seconds", v.operator_seconds},
          {"predicted_batch", v.predicted},
          {"knee", v.knee ? to_json(*v.knee) : Json(nullptr)},
          {"measured_to_predicted", v.explanation ? to_json(*v.explanation) : Json(nullptr)},
          {"figures", v.figures},
          {"sentences", sentences_of(sweep, v)},
          {"points", std::move(points)},
          {"counted_samples", v.counted_samples},
          {"operators", v.counted},
          {"machine", v.machine}};
}

SweepVariant variant_from(const Json& j) {
  SweepVariant v{.value = j.at("value")};
  if (j.at("failure").is_string()) v.failure = j.at("failure");
  for (const Json& point : j.at("points")) v.points.push_back(point_from(point));
  v.precision = j.at("precision");
  v.flops_per_sample = j.at("flops_per_sample");
  v.weight_bytes = j.at("weight_bytes");
  v.roof.bytes_per_second = j.at("weight_read_bytes_per_second");
  v.operator_seconds = j.at("operator_seconds");
  v.figures = j.at("figures").get<std::map<std::string, double>>();
  v.counted_samples = j.at("counted_samples");
  v.counted = j.at("operators");
  v.operators = v.counted.size();
  v.machine = j.at("machine");
  return v;
}

}  // namespace

Json to_json(const Sweep& sweep) {
  Json variants = Json::array();
  for (const SweepVariant& variant : sweep.variants) variants.push_back(to_json(sweep, variant));
  return {{"name", sweep.name},
          {"mode", name_of(sweep.mode)},
          {"key", sweep.key.empty() ? Json(nullptr) : Json(sweep.key)},
          {"latency_ms", or_null(sweep.latency_ms)},
          {"variants", std::move(variants)}};
}

Sweep sweep_from_json(const Json& json) {
  Sweep sweep{.name = json.at("name")};
  sweep.mode = parse_enum<SweepMode>(json.at("mode").get<std::string>()).value();
  if (json.at("key").is_string()) sweep.key = json.at("key");
  sweep.latency_ms = number_at(json, "latency_ms");
  for (const Json& variant : json.at("variants")) sweep.variants.push_back(variant_from(variant));
  analyse(sweep);
  return sweep;
}

}  // namespace autotrain
