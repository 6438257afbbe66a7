#include "base/json.h"
#include "base/text.h"
#include "report/csv_file.h"
#include "sweep/csv_cells.h"
#include "sweep/serving.h"
#include "sweep/serving_columns.h"

namespace autotrain {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const ServingPoint& p) {
  if (!p.failure.empty()) return {{"rate", p.rate}, {"failure", p.failure}, {"code", p.code}};
  Json json = {{"rate", p.rate}, {"failure", nullptr}};
  json.update(json_of(serving_columns(), p));
  return json;
}

ServingPoint serving_point_from(const Json& j) {
  ServingPoint p{.rate = j.at("rate")};
  if (j.at("failure").is_string()) {
    p.failure = j.at("failure");
    p.code = j.value("code", 0);
  } else {
    read_record(serving_columns(), j, p);
  }
  return p;
}

Json to_json(const ServiceTimes& times) {
  Json rows = Json::array();
  for (const auto& [samples, s] : times.measured()) {
    rows.push_back({{"samples", samples},
                    {"loading_seconds", s.loading},
                    {"copying_seconds", s.copying},
                    {"forward_seconds", s.forward},
                    {"output_seconds", s.output}});
  }
  return rows;
}

Json to_json(const ServingSweep& sweep, const ServingLine& line) {
  const ServingPoint* const held = held_point(sweep, line);
  Json json = json_of(line_columns(), line.serving), points = Json::array();
  for (const ServingPoint& p : line.points) points.push_back(to_json(p));
  json["capacity_per_second"] = or_null(line.capacity);
  json["held_rate"] = held == nullptr ? Json(nullptr) : Json(held->rate);
  json["points"] = std::move(points);
  return json;
}

Json to_json(const ServingSweep& sweep, const ServingVariant& v) {
  Json times = Json::object(), lines = Json::array();
  for (const auto& [servers, of_them] : v.times) times[std::to_string(servers)] = to_json(of_them);
  for (const ServingLine& line : v.lines) lines.push_back(to_json(sweep, line));
  return {{"value", v.value},
          {"failure", v.failure.empty() ? Json(nullptr) : Json(v.failure)},
          {"code", v.code},
          {"precision", v.precision},
          {"sentences", sentences_of(sweep, v)},
          {"times_by_servers", std::move(times)},
          {"lines", std::move(lines)},
          {"machine", v.machine}};
}

ServingVariant serving_variant_from(const Json& j) {
  ServingVariant v{.value = j.at("value")};
  if (j.at("failure").is_string()) v.failure = j.at("failure");
  v.code = j.at("code");
  v.precision = j.at("precision");
  v.machine = j.at("machine");
  for (const auto& [servers, rows] : j.at("times_by_servers").items()) {
    int64_t count = 0;
    if (parse_integer(servers, count)) v.times[count] = service_times_from(rows);
  }
  for (const Json& row : j.at("lines")) {
    ServingLine& line = v.lines.emplace_back();
    read_record(line_columns(), row, line.serving);
    line.capacity = optional_number(row.at("capacity_per_second"));
    for (const Json& point : row.at("points")) line.points.push_back(serving_point_from(point));
  }
  return v;
}

std::vector<std::string> names_of_cells() {
  std::vector<std::string> names = {"key", "value", "precision"};
  for (std::string& name : csv_header(line_columns())) names.push_back(std::move(name));
  names.insert(names.end(), {"rate", "failure"});
  for (std::string& name : csv_header(serving_columns())) names.push_back(std::move(name));
  return names;
}

}  // namespace

ServiceTimes service_times_from(const Json& rows) {
  ServiceTimes times;
  for (const Json& row : rows) {
    times.add(row.at("samples"), {.loading = row.at("loading_seconds"),
                                  .copying = row.at("copying_seconds"),
                                  .forward = row.at("forward_seconds"),
                                  .output = row.at("output_seconds")});
  }
  return times;
}

Json to_json(const ServingSweep& sweep) {
  Json variants = Json::array();
  for (const ServingVariant& variant : sweep.variants) variants.push_back(to_json(sweep, variant));
  return {{"name", sweep.name},
          {"key", sweep.key.empty() ? Json(nullptr) : Json(sweep.key)},
          {"latency_ms", or_null(sweep.latency_ms)},
          {"percentile", sweep.percentile},
          {"trace", sweep.trace.empty() ? Json(nullptr) : Json(sweep.trace)},
          {"unfinished", sweep.unfinished},
          {"variants", std::move(variants)}};
}

std::string to_csv(const ServingSweep& sweep) {
  std::string text = csv_line(names_of_cells());
  for (const ServingVariant& v : sweep.variants) {
    for (const ServingLine& line : v.lines) {
      for (const ServingPoint& p : line.points) {
        std::vector<std::string> row = {sweep.key, v.value, v.precision};
        for (std::string& cell : csv_cells(line_columns(), line.serving)) row.push_back(std::move(cell));
        row.insert(row.end(), {csv_number(p.rate), p.failure});
        add_csv_cells(row, serving_columns(), p.failure.empty() ? &p : nullptr);
        text += csv_line(row);
      }
    }
  }
  return text;
}

ServingSweep serving_from_json(const Json& json) {
  ServingSweep sweep{.name = json.at("name")};
  if (json.at("key").is_string()) sweep.key = json.at("key");
  sweep.latency_ms = optional_number(json.at("latency_ms"));
  sweep.percentile = json.at("percentile");
  if (json.at("trace").is_string()) sweep.trace = json.at("trace");
  sweep.unfinished = json.at("unfinished");
  for (const Json& variant : json.at("variants")) sweep.variants.push_back(serving_variant_from(variant));
  return sweep;
}

}  // namespace autotrain
