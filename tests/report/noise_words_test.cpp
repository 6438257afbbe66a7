#include "report/noise_words.h"

#include <algorithm>
#include <cmath>

#include "report/metrics_file.h"
#include "report/run_charts.h"
#include "support/support.h"

namespace autotrain {
namespace {

const NoiseScale kKnown{.samples = 1234.4, .low = 3.25, .high = 1e7};
const NoiseScale kBound{.low = 330};

TEST(NoiseWords, SayTheIntervalOrTheBound) {
  EXPECT_TRUE(in_words(kKnown).starts_with("1,234 samples [3.25, 10,000,000]: ")) << in_words(kKnown);
  EXPECT_TRUE(in_words({.samples = 0, .low = 0, .high = 40.7}).starts_with("≤ 40.7 samples: "));
  EXPECT_TRUE(in_words(kBound).starts_with("≥ 330 samples: ")) << in_words(kBound);
}

TEST(NoiseWords, AreOfWhatTheSummaryKept) {
  for (const NoiseScale& scale : {kKnown, kBound}) {
    const auto read = noise_scale_from_json(noise_scale_to_json(scale));
    ASSERT_TRUE(read);
    EXPECT_EQ(noise_scale_to_json(*read), noise_scale_to_json(scale));
  }
  EXPECT_FALSE(noise_scale_from_json(nullptr));
  EXPECT_FALSE(noise_scale_from_json({{"low", nullptr}, {"samples", 3.0}}));
}

TEST(GradientNoise, IsInTheRowsAndInAPlot) {
  const test::TemporaryFolder folder;
  {
    MetricsFile file(folder / "m", {});
    file.write(UpdateRecord{.update = 1, .noise = GradientNoise{.trace = -2, .square = 0.5}});
    file.write(UpdateRecord{.update = 2,
                            .noise = GradientNoise{.trace = 3, .square = 0.25, .scale = kKnown},
                            .preconditioned_noise = GradientNoise{.trace = 7, .square = 1, .scale = kBound}});
    file.write(
        UpdateRecord{.update = 3, .noise = GradientNoise{.trace = 3, .square = -0.25, .scale = kBound}});
    file.write(UpdateRecord{.update = 4,
                            .preconditioned_noise = GradientNoise{.trace = 7, .square = 1, .scale = kKnown}});
  }
  const auto rows = read_metrics(folder / "m");
  EXPECT_EQ(rows[0].at("gradient_noise").dump(),
            R"({"trace":-2.0,"square":0.5,"samples":null,"low":null,"high":null})");
  const auto charts = training_charts(read_history(folder / "m"));
  const auto chart = std::ranges::find_if(
      charts, [](const page::Chart& each) { return each.title.starts_with("Gradient noise scale"); });
  ASSERT_NE(chart, charts.end());
  EXPECT_FALSE(rows[0].contains("preconditioned_noise"));
  EXPECT_EQ(rows[1].at("preconditioned_noise").dump(),
            R"({"trace":7.0,"square":1.0,"samples":null,"low":330.0,"high":null})");
  ASSERT_EQ(chart->series.size(), 6u);
  EXPECT_EQ(chart->series[0].y[1], 1234.4);
  EXPECT_TRUE(std::isnan(chart->series[0].y[2]));
  EXPECT_EQ(chart->series[1].y[2], 330);
  EXPECT_EQ(chart->series[0].y.size(), 3u);
  EXPECT_EQ(chart->series[3].name, "in the optimizer's metric: estimate");
  EXPECT_EQ(chart->series[3].x[0], (std::vector<double>{2, 4})) << "of the updates that were measured";
  EXPECT_TRUE(std::isnan(chart->series[3].y[0]));
  EXPECT_EQ(chart->series[3].y[1], 1234.4);
  EXPECT_EQ(chart->series[4].y, (std::vector<double>{330, 3.25}));
}

}  // namespace
}  // namespace autotrain
