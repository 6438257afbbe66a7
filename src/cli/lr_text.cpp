#include "cli/lr_text.h"

#include <cstdio>

#include "base/text.h"
#include "lr/lr_page.h"
#include "lr/race_page.h"
#include "report/block_plot.h"
#include "report/table.h"

namespace autotrain {
namespace {

std::string plot_of(const LearningRateTest& test) {
  BlockPlot plot{.title = "loss over learning rate", .log_x = true, .colour = wants_colour(stdout)};
  for (size_t i = 0; i < test.stretches.size(); ++i) {
    BlockSeries series{.name = cat("stretch ", i + 1)};
    for (const RatePoint& point : shown_points(test.stretches[i])) {
      series.x.push_back(point.lr);
      series.y.push_back(point.loss);
    }
    plot.series.push_back(std::move(series));
  }
  return plot.text();
}

std::string text_of(const LearningRateTest& test) {
  const page::Table table = table_of(test);
  return cat(plot_of(test), "\n", TextTable(table.header, table.rows).text(), "\n",
             join(notes_of(test), "\n"), "\n\n");
}

std::string text_of(const RateRace& race) {
  const page::Table table = table_of(race);
  return cat(table.title, "\n", TextTable(table.header, table.rows).text(), "\n",
             join(sentences_of(race), "\n"), "\n\n");
}

}  // namespace

std::string lr_text(const LearningRateReport& report, bool everything) {
  std::string text;
  if (report.test && everything) text += text_of(*report.test);
  if (report.test && report.race && everything) text += cat("range test: ", answer_of(*report.test), "\n\n");
  if (report.race && everything) text += text_of(*report.race);
  return cat(text, report.race ? answer_of(*report.race) : answer_of(*report.test), "\n");
}

}  // namespace autotrain
