#include "compress/compress_page.h"

#include "base/text.h"
#include "compress/compress_table.h"
#include "report/page.h"

namespace autotrain {
namespace {

// One point for each method: what is lost for how many bytes.
page::Chart figure_chart(const CompressionResult& result, const std::string& figure) {
  page::Chart chart{.title = figure + " and the bytes of the file",
                    .x = {{.label = "file", .log = true, .format = page::Format::kBytes}},
                    .y = {.label = figure}};
  for (const CompressedModel& model : result.models) {
    const auto value = model.figures.find(figure);
    if (value == model.figures.end()) continue;
    chart.series.push_back({.name = model.method,
                            .x = {{static_cast<double>(model.bytes)}},
                            .y = {value->second},
                            .draw = page::Draw::kPoints});
  }
  return chart;
}

page::Series rates_of(const CompressedModel& model) {
  page::Series series{.name = model.method, .x = {{}}, .draw = page::Draw::kLineAndPoints};
  for (const CompressedRate& rate : model.rates) {
    series.x[0].push_back(static_cast<double>(rate.batch));
    series.y.push_back(rate.samples_per_second);
    series.low.push_back(rate.samples_per_second * (1 - rate.spread / 2));
    series.high.push_back(rate.samples_per_second * (1 + rate.spread / 2));
  }
  return series;
}

page::Chart rate_chart(const CompressionResult& result) {
  page::Chart chart{.title = "samples a second",
                    .x = {{.label = "batch", .log = true}},
                    .y = {.label = "samples/s", .log = true}};
  for (const CompressedModel& model : result.models) {
    if (!model.rates.empty()) chart.series.push_back(rates_of(model));
  }
  return chart;
}

page::Section figures_section(const CompressionResult& result) {
  page::Section section{.title = "Weights", .paragraphs = sentences_of(result), .tables = {table_of(result)}};
  for (const auto& [figure, value] : result.models.front().figures)
    section.charts.push_back(figure_chart(result, figure));
  return section;
}

page::Section speed_section(const CompressionResult& result) {
  page::Section section{
      .title = "Speed",
      .paragraphs =
          {"The rate of forward passes, the median of the rounds, in which methods took turns; the band is "
           "half of what lies between the best round and the worst one, either way. b* in the table is where "
           "reading the weights takes as long as computing with them: from there on a larger batch brings "
           "little. It is predicted, from rates of this machine."},
      .charts = {rate_chart(result)}};
  return section;
}

}  // namespace

std::string to_page(const CompressionResult& result) {
  page::Page page{.title = "Smaller weights",
                  .subtitle = cat(result.run.string(), ", update ", result.update, ", ", result.precision,
                                  ", ", result.processor),
                  .sections = {figures_section(result)}};
  if (!result.models.front().rates.empty()) page.sections.push_back(speed_section(result));
  return page::render(page);
}

}  // namespace autotrain
