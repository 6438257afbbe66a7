#include "step/gradient_noise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "base/random.h"

namespace autotrain {
namespace {

using Vector = std::vector<double>;

// Samples whose gradients are normal around a known one, with a known deviation of each element.
struct NoisyTask {
  Vector gradient, deviation;

  double trace() const {
    return std::inner_product(deviation.begin(), deviation.end(), deviation.begin(), 0.0);
  }
  double square() const {
    return std::inner_product(gradient.begin(), gradient.end(), gradient.begin(), 0.0);
  }

  // The sum of so many samples' gradients.
  Vector draw(int64_t samples, Random& random) const {
    Vector sum(gradient.size());
    for (size_t i = 0; i < sum.size(); ++i)
      sum[i] = static_cast<double>(samples) * gradient[i] +
               std::sqrt(static_cast<double>(samples)) * deviation[i] * random.normal();
    return sum;
  }
};

NoisyTask task_of(size_t elements, double noise_scale) {
  NoisyTask task{Vector(elements), Vector(elements)};
  for (size_t i = 0; i < elements; ++i) task.gradient[i] = 1 + static_cast<double>(i % 3);
  for (size_t i = 0; i < elements; ++i) task.deviation[i] = 1 / (1 + static_cast<double>(i % 5));
  const double factor = std::sqrt(noise_scale * task.square() / task.trace());
  for (double& each : task.deviation) each *= factor;
  return task;
}

double squared_norm(const Vector& sum, double weight) {
  return std::inner_product(sum.begin(), sum.end(), sum.begin(), 0.0) / (weight * weight);
}

// Micro-batches of each lane, in samples; a sample has weight `weight`.
using LaneCuts = std::vector<std::vector<int64_t>>;

int64_t samples_of(const LaneCuts& lanes) {
  int64_t samples = 0;
  for (const auto& lane : lanes) samples += std::accumulate(lane.begin(), lane.end(), int64_t{0});
  return samples;
}

WindowNorms window_of(const NoisyTask& task, const LaneCuts& lanes, Random& random, double weight = 1) {
  WindowNorms norms;
  Vector whole(task.gradient.size());
  for (const auto& lane : lanes) {
    for (size_t piece = 0; piece < lane.size(); ++piece) {
      const Vector sum = task.draw(lane[piece], random);
      for (size_t i = 0; i < sum.size(); ++i) whole[i] += sum[i];
      if (piece > 0) continue;
      const double samples = static_cast<double>(lane[piece]);
      norms.first_squares += weight * samples * squared_norm(sum, samples);
      norms.first_weight += weight * samples;
      ++norms.firsts;
    }
  }
  const auto samples = static_cast<double>(samples_of(lanes));
  norms.square = squared_norm(whole, samples);
  norms.weight = weight * samples;
  return norms;
}

struct Mean {
  double mean, error;
};

Mean mean_of(const Vector& values) {
  const auto n = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return {mean, std::sqrt(squares / (n * (n - 1)))};
}

class NoiseOfWindows : public testing::TestWithParam<LaneCuts> {};

// Four standard errors: one seed of some 16,000 is farther off; ours is fixed.
TEST_P(NoiseOfWindows, IsEstimatedWithoutBias) {
  const NoisyTask task = task_of(40, 50);
  for (const double weight : {1.0, 7.5}) {
    Random random(11);
    Vector traces, squares;
    for (int repetition = 0; repetition < 20'000; ++repetition) {
      const auto moments = moments_of(window_of(task, GetParam(), random, weight), samples_of(GetParam()));
      ASSERT_TRUE(moments);
      traces.push_back(moments->trace);
      squares.push_back(moments->square);
    }
    const Mean trace = mean_of(traces), square = mean_of(squares);
    EXPECT_LT(std::abs(trace.mean - task.trace()), 4 * trace.error) << task.trace();
    EXPECT_LT(std::abs(square.mean - task.square()), 4 * square.error) << task.square();
    EXPECT_LT(trace.error, 0.02 * task.trace()) << "the test is sharp enough to see a wrong divisor";
  }
}

INSTANTIATE_TEST_SUITE_P(Cuts, NoiseOfWindows,
                         testing::Values(LaneCuts{{8, 8}}, LaneCuts{{8, 8, 5}},
                                         LaneCuts{{4, 4, 4, 4, 4, 4, 4, 1}}, LaneCuts{{1, 1, 1}},
                                         LaneCuts{{5, 5, 2}, {5, 5, 1}}, LaneCuts{{9}, {8}},
                                         LaneCuts{{7, 3}, {7, 3}, {}, {6}}));

TEST(NoiseOfWindow, WithoutPartsTellsNothing) {
  const NoisyTask task = task_of(8, 10);
  Random random(1);
  EXPECT_FALSE(moments_of(window_of(task, {{16}}, random), 16)) << "the micro-batch is the window";
  EXPECT_FALSE(moments_of(WindowNorms{.square = 1, .weight = 16}, 16)) << "no norm was taken";
  WindowNorms norms = window_of(task, {{8, 8}}, random);
  norms.first_squares = NAN;
  EXPECT_FALSE(moments_of(norms, 16)) << "as where a first micro-batch has no weight";
  norms.first_squares = INFINITY;
  EXPECT_FALSE(moments_of(norms, 16));
}

NoiseBlocks run_of(const NoisyTask& task, const LaneCuts& lanes, int updates, Random& random) {
  NoiseBlocks blocks;
  for (int update = 0; update < updates; ++update)
    blocks.add(*moments_of(window_of(task, lanes, random), samples_of(lanes)));
  return blocks;
}

// A thousand runs by a fixed seed: of a true share of 0.95, [0.93, 0.97] is three standard errors wide.
TEST(NoiseScale, ItsIntervalHoldsTheTruthAsOftenAsItSays) {
  const double truth = 30;
  const NoisyTask task = task_of(20, truth);
  const std::vector<LaneCuts> cuts = {{{16, 16}}, {{16, 16, 16, 5}}, {{4, 4, 4, 4, 4, 4, 4, 3}}};
  for (const LaneCuts& cut : cuts) {
    Random random(3);
    int covered = 0;
    for (int run = 0; run < 1000; ++run) {
      const auto scale = run_of(task, cut, 200, random).scale();
      ASSERT_TRUE(scale);
      ASSERT_TRUE(scale->samples) << "200 updates are enough here";
      covered += scale->low <= truth && truth <= *scale->high;
    }
    EXPECT_GE(covered, 930);
    EXPECT_LE(covered, 970);
  }
}

TEST(NoiseScale, OfAnotherCutIsTheSameWithinItsInterval) {
  const NoisyTask task = task_of(20, 30);
  Random random(5);
  const auto halves = run_of(task, {{32, 32}}, 4000, random).scale();
  const auto eighths = run_of(task, {{8, 8, 8, 8, 8, 8, 8, 8}}, 4000, random).scale();
  ASSERT_TRUE(halves && eighths && halves->samples && eighths->samples);
  EXPECT_LT(std::max(halves->low, eighths->low), std::min(*halves->high, *eighths->high));
  EXPECT_LT(*halves->high / halves->low, 1.5);
}

// The true gradient is a hundred times smaller than its noise at this batch.
TEST(NoiseScale, OfAGradientLostInNoiseIsALowerBound) {
  const double truth = 200'000;
  const NoisyTask task = task_of(20, truth);
  Random random(9);
  int bounds = 0, wrong = 0;
  for (int run = 0; run < 200; ++run) {
    const auto scale = run_of(task, {{10, 10}}, 64, random).scale();
    if (!scale || scale->samples) continue;
    ++bounds;
    EXPECT_FALSE(scale->high);
    wrong += scale->low > truth;
  }
  EXPECT_GT(bounds, 150);
  EXPECT_LT(wrong, 10);
}

TEST(NoiseScale, IsOfTheLaterHalf) {
  Random random(2);
  NoiseBlocks blocks = run_of(task_of(20, 5), {{16, 16}}, 500, random);
  const NoisyTask later = task_of(20, 80);
  for (int update = 0; update < 700; ++update)
    blocks.add(*moments_of(window_of(later, {{16, 16}}, random), 32));
  const auto scale = blocks.scale();
  ASSERT_TRUE(scale && scale->samples);
  EXPECT_LT(scale->low, 80);
  EXPECT_GT(*scale->high, 80);
  EXPECT_GT(scale->low, 20) << "the earlier updates would have pulled it down";
}

TEST(NoiseBlocks, AreFewAndLoseNothing) {
  NoiseBlocks blocks;
  double traces = 0, squares = 0;
  for (int update = 1; update <= 5000; ++update) {
    blocks.add({.trace = static_cast<double>(update), .square = 0.5});
    traces += update;
    squares += 0.5;
    ASSERT_LE(blocks.traces.size(), kMostNoiseBlocks);
    ASSERT_TRUE(blocks.sound());
    ASSERT_EQ(std::accumulate(blocks.traces.begin(), blocks.traces.end(), 0.0), traces);
    ASSERT_EQ(std::accumulate(blocks.squares.begin(), blocks.squares.end(), 0.0), squares);
    const auto full = static_cast<int64_t>(blocks.traces.size()) - 1;
    ASSERT_EQ(full * blocks.updates_each + blocks.updates_in_last, update);
  }
  EXPECT_EQ(blocks.updates_each, 128);
}

int64_t plain_stride(int64_t window) {
  return noise_strides(window).plain;
}

int64_t preconditioned_stride(int64_t window) {
  return noise_strides(window).preconditioned;
}

// How many windows of a range are measured.
int64_t measured(int64_t begin, int64_t end, int64_t (*stride)(int64_t)) {
  int64_t count = 0;
  for (int64_t window = begin; window < end; ++window) count += is_measured(window, stride(window)) ? 1 : 0;
  return count;
}

TEST(NoiseStrides, TakeAsManyOfEachDoublingOfARunAsOfTheOneBefore) {
  EXPECT_EQ(measured(0, 1024, plain_stride), 1024);
  for (const int64_t window : {1024, 2048, 4096, 8192})
    EXPECT_EQ(measured(window, 2 * window, plain_stride), 512) << window;
  EXPECT_EQ(measured(1 << 20, 1 << 21, plain_stride), (1 << 20) / 16);
  EXPECT_EQ(measured(0, 4096, preconditioned_stride), 4096 / 16);
  for (const int64_t window : {4096, 8192, 16384})
    EXPECT_EQ(measured(window, 2 * window, preconditioned_stride), 128) << window;
  EXPECT_EQ(measured(1 << 20, 1 << 21, preconditioned_stride), (1 << 20) / 128);
}

// The number of each window in place of its estimate: sums show which windows stand where.
TEST(NoiseBlocks, OfALongRunAreOfEquallyManyWindows) {
  for (const auto stride : {plain_stride, preconditioned_stride}) {
    NoiseBlocks blocks;
    for (int64_t window = 0; window < 40'000; ++window) {
      if (!is_measured(window, stride(window))) continue;
      blocks.add({.trace = static_cast<double>(window), .square = 1}, stride(window));
      ASSERT_TRUE(blocks.sound());
      const auto full = static_cast<int64_t>(blocks.traces.size()) - 1;
      ASSERT_EQ(full * blocks.updates_each + blocks.updates_in_last, window + 1);
    }
    const auto each = static_cast<double>(blocks.updates_each);
    for (size_t i = 0; i + 1 < blocks.traces.size(); ++i) {
      EXPECT_EQ(blocks.squares[i], each);
      const double middle = (static_cast<double>(i) + 0.5) * each;
      EXPECT_NEAR(blocks.traces[i] / each, middle, static_cast<double>(stride(40'000)));
    }
  }
}

TEST(NoiseScale, OfALongRunHoldsTheTruthAsOftenAsItSays) {
  const double truth = 30;
  const NoisyTask task = task_of(20, truth);
  Random random(3);
  int covered = 0;
  for (int run = 0; run < 1000; ++run) {
    NoiseBlocks blocks;
    for (int64_t window = 0; window < 3000; ++window) {
      if (is_measured(window, plain_stride(window)))
        blocks.add(*moments_of(window_of(task, {{16, 16}}, random), 32), plain_stride(window));
    }
    const auto scale = blocks.scale();
    ASSERT_TRUE(scale && scale->samples);
    covered += scale->low <= truth && truth <= *scale->high;
  }
  EXPECT_GE(covered, 930);
  EXPECT_LE(covered, 970);
}

// As where a loss scale is too high. The number of each window in place of its estimate, as above.
TEST(NoiseBlocks, BearLostWindows) {
  Random random(6);
  for (const auto stride : {plain_stride, preconditioned_stride}) {
    NoiseBlocks blocks;
    int64_t stood_for = 0;
    for (int64_t window = 0; window < 40'000; ++window) {
      if (!is_measured(window, stride(window)) || random.below(10) == 0) continue;
      blocks.add({.trace = static_cast<double>(window), .square = 1}, stride(window));
      stood_for += stride(window);
      ASSERT_TRUE(blocks.sound()) << window;
      ASSERT_LE(blocks.traces.size(), kMostNoiseBlocks);
      ASSERT_EQ(std::accumulate(blocks.squares.begin(), blocks.squares.end(), 0.0), stood_for) << window;
    }
    double before = -1;
    for (size_t i = 0; i + 1 < blocks.traces.size(); ++i) {
      EXPECT_GE(blocks.squares[i], blocks.updates_each);
      EXPECT_LT(blocks.squares[i], 1.25 * static_cast<double>(blocks.updates_each));
      const double middle = blocks.traces[i] / blocks.squares[i];
      EXPECT_GT(middle, before);
      before = middle;
    }
  }
}

TEST(NoiseBlocks, ForgetWhatCameBeforeALongStretchWithoutAny) {
  NoiseBlocks blocks;
  for (int update = 0; update < 20; ++update) blocks.add({.trace = 1, .square = 1});
  blocks.add({.trace = 5, .square = 2}, 16);
  EXPECT_EQ(blocks,
            (NoiseBlocks{.updates_each = 16, .updates_in_last = 16, .traces = {80}, .squares = {32}}));
}

TEST(NoiseScale, NeedsSixteenBlocks) {
  const NoisyTask task = task_of(20, 30);
  Random random(4);
  NoiseBlocks blocks = run_of(task, {{16, 16}}, 15, random);
  EXPECT_FALSE(NoiseBlocks().scale());
  EXPECT_FALSE(blocks.scale());
  blocks.add(*moments_of(window_of(task, {{16, 16}}, random), 32));
  EXPECT_TRUE(blocks.scale());
}

}  // namespace
}  // namespace autotrain
