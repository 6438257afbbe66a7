#include "compress/compress_table.h"

#include "base/text.h"
#include "base/units.h"
#include "report/column.h"
#include "report/table.h"

namespace autotrain {
namespace {

using Json = nlohmann::ordered_json;
using Cells = std::vector<std::string>;
using Model = CompressedModel;

const ColumnsOf<Model>& size_columns() {
  using enum Unit;
  static const ColumnsOf<Model> columns = {
      column<Model>("changed", &Model::changed, {.heading = "changed"}),
      column<Model>("bytes", &Model::bytes, {.heading = "file", .unit = kBytes}),
      column<Model>(
          "ratio", &Model::ratio,
          {.heading = "smaller", .text = [](const Model& m) { return cat(fixed(m.ratio, 2), "x"); }}),
      column<Model>("flops_per_sample", &Model::flops_per_sample, {.heading = "FLOP/sample", .unit = kRate}),
      column<Model>("weight_bytes", &Model::weight_bytes, {.heading = "reads", .unit = kBytes}),
  };
  return columns;
}

// Those of speed, which a machine has to be measured for.
const ColumnsOf<Model>& batch_columns() {
  static const ColumnsOf<Model> columns = {
      column<Model>(
          "predicted_batch", &Model::predicted_batch,
          {.heading = "b*",
           .text = [](const Model& m) { return m.predicted_batch > 0 ? brief(m.predicted_batch, 3) : "-"; }}),
      column<Model>("packed_layers", &Model::packed_layers, {.heading = "packed"}),
  };
  return columns;
}

bool has_speeds(const CompressionResult& result) {
  return !result.models.front().rates.empty();
}

// The names of the figures, and the batches, are those of the first row: the weights as they are.
Cells table_header(const CompressionResult& result) {
  Cells header = {"method"};
  for (const auto& [name, value] : result.models.front().figures) header.push_back(name);
  for (const std::string& heading : headings_of(size_columns())) header.push_back(heading);
  if (!has_speeds(result)) return header;
  for (const std::string& heading : headings_of(batch_columns())) header.push_back(heading);
  for (const CompressedRate& rate : result.models.front().rates) {
    header.push_back(cat("samples/s at ", rate.batch));
    header.emplace_back("±");
  }
  return header;
}

Cells table_cells(const CompressionResult& result, const Model& model) {
  Cells cells = {model.method};
  for (const auto& [name, value] : model.figures) cells.push_back(fixed(value, 4));
  for (const std::string& cell : table_row(size_columns(), model)) cells.push_back(cell);
  if (!has_speeds(result)) return cells;
  for (const std::string& cell : table_row(batch_columns(), model)) cells.push_back(cell);
  for (const CompressedRate& rate : model.rates) {
    cells.push_back(format_rate(rate.samples_per_second));
    cells.push_back(rate.rounds > 1 ? format_percent(rate.spread / 2, 0) : "-");
  }
  return cells;
}

Json rates_json(const Model& model) {
  Json rates = Json::array();
  for (const CompressedRate& rate : model.rates) {
    rates.push_back(
        {{"batch", rate.batch}, {"samples_per_second", rate.samples_per_second}, {"spread", rate.spread}});
  }
  return rates;
}

Json model_json(const Model& model) {
  Json json = {{"method", model.method}};
  if (!model.refused.empty()) {
    json["refused"] = model.refused;
    return json;
  }
  json["file"] = model.file;
  json["figures"] = field_to_json(model.figures);
  json["left_whole"] = model.left_whole;
  if (!model.taken_out.empty()) json["taken_out"] = model.taken_out;
  json.update(json_of(size_columns(), model));
  json.update(json_of(batch_columns(), model));
  json["rates"] = rates_json(model);
  return json;
}

Cells csv_names(const CompressionResult& result) {
  Cells names = {"method", "file", "refused"};
  for (const auto& [name, value] : result.models.front().figures) names.push_back(name);
  for (const std::string& name : csv_header(size_columns())) names.push_back(name);
  for (const std::string& name : csv_header(batch_columns())) names.push_back(name);
  for (const CompressedRate& rate : result.models.front().rates) {
    names.push_back(cat("samples_per_second_", rate.batch));
    names.push_back(cat("spread_", rate.batch));
  }
  names.emplace_back("taken_out");
  names.emplace_back("left_whole");
  return names;
}

Cells csv_row(const Model& model, size_t width) {
  Cells cells = {model.method, model.file, model.refused};
  if (model.refused.empty()) {
    for (const auto& [name, value] : model.figures) cells.push_back(csv_number(value));
    for (const std::string& cell : csv_cells(size_columns(), model)) cells.push_back(cell);
    for (const std::string& cell : csv_cells(batch_columns(), model)) cells.push_back(cell);
    for (const CompressedRate& rate : model.rates) {
      cells.push_back(csv_number(rate.samples_per_second));
      cells.push_back(csv_number(rate.spread));
    }
  }
  cells.resize(width);
  cells[width - 2] = model.taken_out;
  cells.back() = join(model.left_whole, " ");
  return cells;
}

// What the figures are of.
std::string samples_text(const CompressionResult& result) {
  if (result.samples == 0) return "no figures: the run has no validation data";
  return cat("figures of ", format_count(result.samples), " validation samples");
}

}  // namespace

page::Table table_of(const CompressionResult& result) {
  page::Table table{.header = table_header(result)};
  for (const Model& model : result.models) {
    if (!model.refused.empty()) continue;
    table.rows.push_back(table_cells(result, model));
    table.rows.back().resize(table.header.size());
  }
  return table;
}

std::vector<std::string> sentences_of(const CompressionResult& result) {
  std::vector<std::string> sentences = {samples_text(result)};
  for (const Model& model : result.models) {
    if (!model.left_whole.empty())
      sentences.push_back(cat(model.method, ": left whole: ", some_of(model.left_whole)));
  }
  if (!result.inputs_first.empty())
    sentences.push_back(
        cat("kept as [in, out], so that scales are of their inputs: ", some_of(result.inputs_first)));
  for (const Model& model : result.models) {
    if (!model.taken_out.empty()) sentences.push_back(cat(model.method, ": without ", model.taken_out));
  }
  for (const Model& model : result.models) {
    if (!model.refused.empty()) sentences.push_back(cat(model.method, ": ", model.refused));
  }
  return sentences;
}

std::string to_text(const CompressionResult& result) {
  const page::Table rows = table_of(result);
  TextTable table(rows.header);
  for (const Cells& row : rows.rows) table.add_row(row);
  return table.text() + join(sentences_of(result), "\n") + "\n";
}

nlohmann::ordered_json to_json(const CompressionResult& result) {
  Json models = Json::array();
  for (const Model& model : result.models) models.push_back(model_json(model));
  return {{"run", result.run.string()},    {"update", result.update},   {"precision", result.precision},
          {"processor", result.processor}, {"samples", result.samples}, {"inputs_first", result.inputs_first},
          {"models", std::move(models)}};
}

std::string to_csv(const CompressionResult& result) {
  const Cells names = csv_names(result);
  std::string text = csv_line(names);
  for (const Model& model : result.models) text += csv_line(csv_row(model, names.size()));
  return text;
}

}  // namespace autotrain
