#include "base/json.h"
#include "report/csv_file.h"
#include "sweep/csv_cells.h"
#include "sweep/decode.h"
#include "sweep/decode_columns.h"

namespace autotrain {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const DecodePoint& p) {
  if (!p.failure.empty())
    return {{"batch", p.batch}, {"context", p.context}, {"failure", p.failure}, {"code", p.code}};
  Json json = {{"batch", p.batch}, {"context", p.context}, {"failure", nullptr}};
  json.update(json_of(decode_columns(), p));
  return json;
}

DecodePoint decode_point_from(const Json& j) {
  DecodePoint p{.batch = j.at("batch"), .context = j.at("context")};
  if (j.at("failure").is_string()) {
    p.failure = j.at("failure");
    p.code = j.value("code", 0);
  } else {
    read_record(decode_columns(), j, p);
  }
  return p;
}

Json to_json(const BatchingComparison& b) {
  return b.failure.empty() ? json_of(batching_columns(), b) : Json{{"failure", b.failure}};
}

Json to_json(const DecodeVariant& v) {
  Json points = Json::array(), contexts = Json::object();
  for (const DecodePoint& p : v.points) {
    points.push_back(to_json(p));
    if (v.token_bytes > 0) contexts[std::to_string(p.context)] = v.equal_batch(p.context);
  }
  return {{"value", v.value},
          {"failure", v.failure.empty() ? Json(nullptr) : Json(v.failure)},
          {"precision", v.precision},
          {"weight_bytes", v.weight_bytes},
          {"cache_bytes_per_token", v.token_bytes},
          {"step_products", v.step_products},
          {"attention_products", v.attention_products},
          {"peak_flops_per_second", v.peak_flops},
          {"batch_of_equal_reading", std::move(contexts)},
          {"sentences", sentences_of(v)},
          {"points", std::move(points)},
          {"batching", v.batching ? to_json(*v.batching) : Json(nullptr)},
          {"machine", v.machine}};
}

DecodeVariant decode_variant_from(const Json& j) {
  DecodeVariant v{.value = j.at("value")};
  if (j.at("failure").is_string()) v.failure = j.at("failure");
  v.precision = j.at("precision");
  v.weight_bytes = j.at("weight_bytes");
  v.token_bytes = j.at("cache_bytes_per_token");
  v.step_products = j.at("step_products");
  v.attention_products = j.at("attention_products");
  v.machine = j.at("machine");
  for (const Json& point : j.at("points")) v.points.push_back(decode_point_from(point));
  const Json& batching = j.at("batching");
  if (!batching.is_object()) return v;
  if (batching.contains("failure"))
    v.batching = BatchingComparison{.failure = batching.at("failure")};
  else
    read_record(batching_columns(), batching, v.batching.emplace());
  return v;
}

}  // namespace

Json to_json(const DecodeSweep& sweep) {
  Json variants = Json::array();
  for (const DecodeVariant& variant : sweep.variants) variants.push_back(to_json(variant));
  return {{"name", sweep.name},
          {"key", sweep.key.empty() ? Json(nullptr) : Json(sweep.key)},
          {"unfinished", sweep.unfinished},
          {"variants", std::move(variants)}};
}

std::string to_csv(const DecodeSweep& sweep) {
  std::vector<std::string> header = {"key", "value", "precision", "batch", "context", "failure"};
  for (std::string& name : csv_header(decode_columns())) header.push_back(std::move(name));
  std::string text = csv_line(header);
  for (const DecodeVariant& v : sweep.variants) {
    for (const DecodePoint& p : v.points) {
      std::vector<std::string> line = {
          sweep.key, v.value, v.precision, std::to_string(p.batch), std::to_string(p.context), p.failure};
      add_csv_cells(line, decode_columns(), p.failure.empty() ? &p : nullptr);
      text += csv_line(line);
    }
  }
  return text;
}

DecodeSweep decode_from_json(const Json& json) {
  DecodeSweep sweep{.name = json.at("name")};
  if (json.at("key").is_string()) sweep.key = json.at("key");
  sweep.unfinished = json.at("unfinished");
  for (const Json& variant : json.at("variants")) sweep.variants.push_back(decode_variant_from(variant));
  analyse(sweep);
  return sweep;
}

}  // namespace autotrain
