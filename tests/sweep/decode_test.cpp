#include "sweep/decode.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/support.h"
#include "sweep/decode_page.h"

namespace autotrain {
namespace {

StudyResult decode_round(std::vector<double> latencies, double bytes_per_second) {
  return {.value = {{"latencies_seconds", std::move(latencies)},
                    {"prefill_seconds", 0.5},
                    {"experts_read", nullptr},
                    {"experts_expected", nullptr},
                    {"busiest_expert", nullptr},
                    {"weight_bytes", 4000},
                    {"cache_bytes", 6000},
                    {"bytes_per_second", bytes_per_second},
                    {"peak_bytes", 20'000}}};
}

DecodeSweep small_decode_sweep() {
  DecodeVariant variant{.value = "fp32",
                        .precision = "fp32",
                        .weight_bytes = 4000,
                        .token_bytes = 30,
                        .step_products = 1000,
                        .attention_products = 16};
  variant.machine = {
      {"name", "a processor"}, {"threads", 2}, {"software", "LibTorch"}, {"flops", {{"fp32", 1e6}}}};
  variant.points = {
      summarise_decode(2, 100,
                       {decode_round({0.02, 0.03, 0.04}, 5e5), decode_round({0.03, 0.03, 0.05}, 1e6)}),
      {.batch = 4, .context = 100, .failure = "it did not fit", .code = 71}};
  variant.batching = BatchingComparison{.slots = 2, .requests = 5, .gain = 1.5};
  DecodeSweep sweep{.name = "small", .key = "execution.precision", .variants = {variant}};
  analyse(sweep);
  return sweep;
}

TEST(DecodeSweep, TheBoundIsTheLongerOfReadingAndComputing) {
  const DecodePoint p = small_decode_sweep().variants[0].points[0];
  EXPECT_DOUBLE_EQ(p.bytes_per_second, 1e6);          // the best round's
  EXPECT_DOUBLE_EQ(p.reading_seconds, 10'000 / 1e6);  // weights and cache
  EXPECT_DOUBLE_EQ(*p.computing_seconds, 2 * 2 * (1000 + 16 * 100) / 1e6);
  EXPECT_DOUBLE_EQ(p.bound_seconds(), *p.computing_seconds);  // 10.4 ms
  EXPECT_FALSE(p.is_bound_by_reading());
  EXPECT_DOUBLE_EQ(p.p50_seconds, 0.03);
  EXPECT_DOUBLE_EQ(p.tokens_per_second, 2 / 0.03);
  EXPECT_DOUBLE_EQ(p.reached, 0.0104 / 0.03);
  EXPECT_DOUBLE_EQ(p.prefill_tokens_per_second, 200 / 0.5);
}

TEST(DecodeSweep, TheCacheWeighsAsMuchAsTheWeightsAtTheirRatio) {
  EXPECT_DOUBLE_EQ(small_decode_sweep().variants[0].equal_batch(100), 4000.0 / (30 * 100));
}

TEST(DecodeSweep, AFailedRoundMakesAFailedPoint) {
  StudyResult failed{.failure = "no memory\nat all", .code = 71};
  const DecodePoint p = summarise_decode(1, 10, {decode_round({1, 1, 1}, 1), failed});
  EXPECT_EQ(p.failure, "no memory");
  EXPECT_EQ(p.code, 71);
}

TEST(DecodeSweep, ComesBackFromItsFile) {
  const DecodeSweep sweep = small_decode_sweep();
  EXPECT_EQ(to_json(decode_from_json(to_json(sweep))), to_json(sweep));
  EXPECT_EQ(to_json(sweep).at("variants")[0].at("batch_of_equal_reading").at("100"), 4000.0 / 3000);
}

TEST(DecodeSweep, ItsPageAndFileHaveEveryPointAndWhyOneFailed) {
  const test::TemporaryFolder folder;
  for (const auto& file : write_decode(small_decode_sweep(), folder.path()))
    EXPECT_TRUE(std::filesystem::exists(file));
  EXPECT_TRUE(is_decode_folder(folder.path()));
  const std::string csv = test::slurp(folder / "decode.csv"), page = test::slurp(folder / "report.html");
  EXPECT_TRUE(test::holds(csv, "execution.precision,fp32,fp32,4,100,it did not fit,"));
  EXPECT_TRUE(test::holds(page, "it did not fit"));
  EXPECT_EQ(draw_decode(folder.path()).size(), 3u);
  folder.write("decode.json", "{}");
  test::expect_error(ExitCode::kBadData, [&] { draw_decode(folder.path()); });
}

}  // namespace
}  // namespace autotrain
