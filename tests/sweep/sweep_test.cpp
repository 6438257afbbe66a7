#include "sweep/sweep.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "support/support.h"
#include "sweep/point_memory.h"
#include "sweep/sweep_analysis.h"
#include "sweep/sweep_columns.h"
#include "sweep/sweep_page.h"
#include "sweep/sweep_tables.h"

namespace autotrain {
namespace {

using Json = nlohmann::ordered_json;

// A round of `calls` that all took so long.
StudyResult round_of(double seconds, size_t calls = 10, int64_t peak_bytes = 1000) {
  return {.name = "",
          .value = {{"latencies_seconds", std::vector<double>(calls, seconds)},
                    {"ended_by", "narrow"},
                    {"peak_bytes", peak_bytes},
                    {"budget_bytes", 4000},
                    {"allocator_retries", 1},
                    {"swapped_bytes", 0},
                    {"major_faults", 2},
                    {"copy_to_device_seconds", nullptr},
                    {"copy_to_host_seconds", nullptr},
                    {"forward_bytes", 50.0},
                    {"time",
                     {{"products_seconds", seconds / 2},
                      {"others_seconds", seconds / 4},
                      {"between_seconds", seconds / 4},
                      {"products_flops", 100.0}}},
                    {"products", Json::array()}}};
}

StudyResult failed_round(const std::string& why) {
  return {.name = "", .failure = why, .code = 71};
}

Json machine(double fp32_flops) {
  return {
      {"device", "cpu"},
      {"threads", 2},
      {"name", "test"},
      {"flops", {{"fp32", fp32_flops}}},
      {"memory_levels", Json::array({{{"name", "L3"}, {"bytes", 1e6}, {"read_bytes_per_second", 1e12}},
                                     {{"name", "memory"}, {"bytes", 0}, {"read_bytes_per_second", 1e7}}})}};
}

// A model of linear layers with `weights` float32 weights on a machine of 1 GFLOP/s and 100 MB/s.
StudyResult model_of(double weights, double flops = 1e9) {
  return {.name = "",
          .value = {{"precision", "fp32"},
                    {"samples", 2},
                    {"flops", 2 * 2 * weights},
                    {"backward_flops", 2 * 4 * weights},
                    {"bytes", 1000},
                    {"weight_bytes", static_cast<int64_t>(4 * weights)},
                    {"weight_read_bytes_per_second", 1e8},
                    {"operator_seconds", 1e-6},
                    {"figures", Json::object()},
                    {"operators", Json::array({{{"operator", "aten::linear"}}})},
                    {"machine", machine(flops)}}};
}

// A variant whose latency is max(reading, computing), each so many times slower than at the machine's edges.
SweepVariant variant_of(double weights, double read_slower, double compute_slower) {
  SweepVariant variant;
  take_model(Recipe{}, model_of(weights), variant);
  for (int64_t batch = 1; batch <= 1024; batch *= 2) {
    const double read = 4 * weights / 1e8 * read_slower;
    const double compute = 2 * weights * static_cast<double>(batch) / 1e9 * compute_slower;
    variant.points.push_back(summarise_point(batch, {round_of(std::max(read, compute))}));
  }
  return variant;
}

TEST(Sweep, APointIsAllItsRoundsTogether) {
  const SweepPoint point = summarise_point(8, {round_of(1.0, 30, 1000), round_of(1.1, 10, 2000)});
  EXPECT_EQ(point.repeats, 20) << "a fast round has more calls, which do not count more";
  EXPECT_NEAR(point.p50_seconds, 1.05, 1e-12);
  EXPECT_EQ(point.p99_seconds, 1.1);
  EXPECT_NEAR(*point.drift, 0.1, 1e-12);
  EXPECT_NEAR(point.samples_per_second, 8 / 1.05, 1e-12);
  EXPECT_EQ(point.peak_bytes, 2000);
  EXPECT_EQ(point.fill, 0.5);
  EXPECT_EQ(point.allocator_retries, 2);
  EXPECT_EQ(point.major_faults, 4);
  EXPECT_FALSE(point.copy_to_device_seconds);
}

StudyResult with_memory(StudyResult round, double allocated, double reserved, double in, double out) {
  round.value.update({{"allocated_bytes", allocated},
                      {"reserved_bytes", reserved},
                      {"machine_swapped_in_bytes", in},
                      {"machine_swapped_out_bytes", out}});
  return round;
}

TEST(Sweep, FragmentationIsThatOfTheRoundThatReservedMost) {
  const PointMemory memory =
      summarise_memory({with_memory(round_of(1), 70, 100, 0, 8), with_memory(round_of(1), 90, 150, 4, 0),
                        with_memory(round_of(1), 80, 120, 0, 0)});
  EXPECT_EQ(memory.fragmentation_bytes(), 60);
  EXPECT_EQ(memory.swapped_in_bytes, 4);
  EXPECT_EQ(memory.swapped_out_bytes, 8);
  EXPECT_TRUE(memory.swapped());
}

TEST(Sweep, WhatAnOlderMeasurementDoesNotTellOfMemoryIsUnknown) {
  const PointMemory memory = summarise_memory({round_of(1)});
  EXPECT_FALSE(memory.fragmentation_bytes());
  EXPECT_FALSE(memory.swapped_in_bytes);
  EXPECT_FALSE(memory.swapped());
}

TEST(Sweep, SwappingOfTheMachineIsInPages) {
  const test::TemporaryFolder folder;
  EXPECT_FALSE(machine_swapping(folder.path()));
  std::filesystem::create_directories(folder / "proc");
  folder.write("proc/vmstat", "pgpgin 5\npswpin 3\npswpout 7\n");
  const auto swapping = machine_swapping(folder.path());
  ASSERT_TRUE(swapping);
  EXPECT_EQ(swapping->in % 3, 0);
  EXPECT_EQ(swapping->in / 3, swapping->out / 7);
  EXPECT_GE(swapping->in / 3, 4096);
}

PointMemory& memory_at(Sweep& sweep, int64_t batch) {
  return std::ranges::find(sweep.variants[0].points, batch, &SweepPoint::batch)->memory;
}

TEST(Sweep, SaysWhenTheMachineSwappedWhileAPointWasMeasured) {
  Sweep sweep{.name = "test", .variants = {variant_of(1e6, 1, 1)}};
  memory_at(sweep, 4) = {.swapped_in_bytes = 0, .swapped_out_bytes = 0};
  analyse(sweep);
  const auto said = [&] { return join(sentences_of(sweep, sweep.variants[0]), "\n"); };
  EXPECT_FALSE(test::holds(said(), "swap"));
  memory_at(sweep, 8) = {.swapped_in_bytes = 3.0 * 1024 * 1024, .swapped_out_bytes = 0};
  EXPECT_TRUE(test::holds(said(), "while batch 8 was measured the machine read 3.00 MiB from its swap"));
}

TEST(Sweep, MemoryOfAPointComesBackFromItsJson) {
  Sweep sweep{.name = "test", .variants = {variant_of(1e6, 1, 1)}};
  memory_at(sweep, 8) = {.allocated_bytes = 70, .reserved_bytes = 100, .swapped_in_bytes = 4};
  analyse(sweep);
  const PointMemory read = sweep_from_json(to_json(sweep)).variants[0].point_of(8).memory;
  EXPECT_EQ(read.fragmentation_bytes(), 30);
  EXPECT_EQ(read.swapped_in_bytes, 4);
  EXPECT_FALSE(read.swapped_out_bytes);
}

TEST(Sweep, SaysWhatHalfTheBytesMakeRoomFor) {
  Sweep sweep{.name = "test",
              .key = "execution.precision",
              .variants = {variant_of(1e6, 1, 1), variant_of(1e6, 1, 1)}};
  SweepVariant &fp32 = sweep.variants[0], &bf16 = sweep.variants[1];
  fp32.value = "fp32", bf16.value = "bf16";
  analyse(sweep);
  const auto said = [&](const SweepVariant& variant) { return join(sentences_of(sweep, variant), "\n"); };
  EXPECT_FALSE(test::holds(said(bf16), "makes room")) << "not asked for";
  fp32.largest = LargestBatch{.batch = 200, .budget_bytes = 1 << 20};
  bf16.largest = LargestBatch{.batch = 370, .budget_bytes = 1 << 20};
  EXPECT_TRUE(test::holds(said(bf16), "bf16 makes room for 1.85 times the batch of fp32"));
  EXPECT_FALSE(test::holds(said(fp32), "makes room"));
  bf16.largest->budget_bytes += 4096;
  EXPECT_TRUE(test::holds(said(bf16), "makes room")) << "a share of what was free a moment later";
  bf16.largest->budget_bytes = 1 << 21;
  EXPECT_FALSE(test::holds(said(bf16), "makes room")) << "another budget";
  bf16.largest = LargestBatch{.batch = 1 << 20, .reason = SearchReason::kCap, .budget_bytes = 1 << 20};
  EXPECT_FALSE(test::holds(said(bf16), "makes room")) << "memory bounds nothing";
}

TEST(Sweep, OneRoundDriftsFromNothing) {
  EXPECT_FALSE(summarise_point(8, {round_of(1.0)}).drift);
}

TEST(Sweep, ThePartsOfACallAreThoseOfTheRoundInTheMiddle) {
  StudyResult slow = round_of(9.0);
  slow.value["time"]["products_seconds"] = 9.0;
  StudyResult unknown = round_of(2.0);
  unknown.value["time"] = nullptr;
  const SweepPoint point = summarise_point(8, {round_of(1.0), slow, round_of(2.0), unknown});
  EXPECT_NEAR(*point.products_share, 0.5, 1e-12);
  EXPECT_NEAR(*point.others_share, 0.25, 1e-12);
  EXPECT_NEAR(*point.products_flops_per_second, 100 / 1.0, 1e-9);
  EXPECT_FALSE(summarise_point(8, {unknown}).products_share);
}

TEST(Sweep, ARoundThatFailedIsTheReasonOfItsPoint) {
  const SweepPoint point =
      summarise_point(8, {round_of(1), failed_round("batch 8: out of memory\n  try: less")});
  EXPECT_EQ(point.failure, "batch 8: out of memory");
  EXPECT_EQ(point.repeats, 0);
}

// docs/roofline.md: s·F ÷ (2·B) = 4 · 1e9 ÷ (2 · 1e8).
TEST(Sweep, PredictsTheKneeOfAModelThatReachesBothEdges) {
  Sweep sweep{.name = "test", .variants = {variant_of(1e6, 1, 1)}};
  analyse(sweep);
  const SweepVariant& variant = sweep.variants[0];
  EXPECT_NEAR(variant.predicted, 20, 1e-9);
  EXPECT_NEAR(variant.knee->batch, 20, 1e-6);
  EXPECT_NEAR(variant.explanation->ratio, 1, 1e-6);
}

TEST(Sweep, ExplainsEveryRatioAsAProductOfMeasuredFactors) {
  for (const double slower : {1.0, 3.0, 10.0}) {
    for (const double compute : {1.0, 1.5, 4.0}) {
      Sweep sweep{.name = "test", .variants = {variant_of(1e6, slower, compute)}};
      analyse(sweep);
      const KneeExplanation& e = *sweep.variants[0].explanation;
      EXPECT_NEAR(e.slower, slower, 1e-6);
      EXPECT_NEAR(e.efficiency, 1 / compute, 1e-6);
      EXPECT_NEAR(e.ratio, e.slower * e.efficiency, 1e-9);
    }
  }
}

TEST(Sweep, ThePeakIsTheBestThatAnyVariantOfTheSameDeviceMeasured) {
  Sweep sweep{.name = "test", .variants = {variant_of(1e6, 1, 1), variant_of(1e6, 1, 1)}};
  sweep.variants[1].machine = machine(2e9);
  analyse(sweep);
  EXPECT_EQ(sweep.variants[0].roof.flops_per_second, 2e9);
  sweep.variants[1].machine["threads"] = 4;
  analyse(sweep);
  EXPECT_EQ(sweep.variants[0].roof.flops_per_second, 1e9);
}

TEST(Sweep, MemoryIsAsFastAsAnyVariantOfTheSameDeviceReadIt) {
  Sweep sweep{.name = "test", .variants = {variant_of(1e6, 1, 1), variant_of(1e6, 1, 1)}};
  sweep.variants[1].machine["memory_levels"][1]["read_bytes_per_second"] = 3e8;
  sweep.variants[0].counted[0]["weight_bytes"] = 4e6;
  sweep.variants[1].counted[0]["weight_bytes"] = 4e5;  // in the cache, whose rate is its own
  analyse(sweep);
  EXPECT_EQ(sweep.variants[0].roof.bytes_per_second, 3e8);
  EXPECT_EQ(sweep.variants[1].roof.bytes_per_second, 1e8);
  sweep.variants[0].roof.bytes_per_second = 4e8;
  analyse(sweep);
  EXPECT_EQ(sweep.variants[0].roof.bytes_per_second, 4e8);
}

TEST(Sweep, ThePeakOfInt8IsThatOfItsLinearLayersAndOfFp32ForTheRest) {
  SweepVariant variant = variant_of(1e6, 1, 1);
  variant.precision = "int8";
  variant.machine["flops"]["int8"] = 4e9;
  variant.counted = {{{"operator", "quantized::linear_dynamic"}, {"flops", 1e6}},
                     {{"operator", "aten::convolution"}, {"flops", 3e6}}};
  Sweep sweep{.name = "test", .variants = {variant}};
  analyse(sweep);
  EXPECT_NEAR(sweep.variants[0].roof.flops_per_second, 4e6 / (1e6 / 4e9 + 3e6 / 1e9), 1);
}

TEST(Sweep, TrainingMovesGradientsAndOptimizerStateToo) {
  const auto moved = [](const std::string& optimizer, std::map<std::string, Value> parameters) {
    Recipe recipe;
    recipe.sweep.mode = SweepMode::kTraining;
    recipe.optimizer.algorithm = {optimizer, std::move(parameters)};
    SweepVariant variant;
    take_model(recipe, model_of(1000), variant);
    EXPECT_EQ(variant.flops_per_sample, 6 * 1000);
    return variant.weight_bytes / 1000;  // of a weight
  };
  EXPECT_EQ(moved("sgd", {}), 28);
  EXPECT_EQ(moved("sgd", {{"momentum", 0.9}}), 36);
  EXPECT_EQ(moved("adamw", {}), 44);
}

TEST(Sweep, FindsTheLargestThroughputWithinALatency) {
  Sweep sweep{.name = "test", .latency_ms = 1e3 * 4 * 1e6 / 1e8 * 2, .variants = {variant_of(1e6, 1, 1)}};
  analyse(sweep);
  const SweepPoint* const best = best_within(sweep.variants[0], 0.08);
  ASSERT_NE(best, nullptr);
  EXPECT_EQ(best->batch, 32);  // 64 ms; 64 would take 128
  EXPECT_EQ(best_within(sweep.variants[0], 1e-6), nullptr);
  const auto sentences = sentences_of(sweep, sweep.variants[0]);
  EXPECT_TRUE(test::holds(sentences.back(), "within 80 ms the largest throughput is at batch 32"));
  EXPECT_TRUE(test::holds(sentences.back(), "of 10 calls alone, too few to have met one in a hundred"));
  for (SweepPoint& point : sweep.variants[0].points) point.repeats = 100;
  EXPECT_FALSE(test::holds(sentences_of(sweep, sweep.variants[0]).back(), "alone"));
}

TEST(Sweep, WhereRoundsDifferTwofoldTheAnswerSaysThatItMayBeChance) {
  Sweep sweep{.name = "test", .variants = {variant_of(1e6, 1, 1)}};
  analyse(sweep);
  sweep.variants[0].points[3].drift = 0.9;
  EXPECT_FALSE(test::holds(answer_of(sweep, sweep.variants[0]), "chance"));
  sweep.variants[0].points[3].drift = 8;
  EXPECT_TRUE(
      test::holds(answer_of(sweep, sweep.variants[0]),
                  "This may be chance: the machine was not steady, and rounds of batch 8 differ 9 times."));
}

TEST(Sweep, SaysWhyAMeasuredKneeIsFarFromItsPrediction) {
  Sweep sweep{.name = "test", .variants = {variant_of(1e6, 5, 1)}};
  analyse(sweep);
  const auto sentences = sentences_of(sweep, sweep.variants[0]);
  const std::string text = join(sentences, "\n");
  EXPECT_TRUE(
      test::holds(text, "5 times the predicted batch of 20, by two factors that multiply: 5 for the "));
  EXPECT_TRUE(test::holds(answer_of(sweep, sweep.variants[0]), "up to a batch of about 100 more samples"));
  EXPECT_TRUE(
      test::holds(text,
                  "the shortest latency, of batch 1, is 5 times that of reading the weights: 50 % of it in "
                  "products"));
  EXPECT_TRUE(test::holds(text, "25 % in other operators, 25 % between operators"));
  EXPECT_TRUE(test::holds(text, "the best throughput, of batch"));
  sweep.variants = {variant_of(1e6, 1.5, 1)};
  analyse(sweep);
  EXPECT_FALSE(test::holds(join(sentences_of(sweep, sweep.variants[0]), "\n"), "prediction"));
}

TEST(Sweep, SaysWhyThereIsNoPrediction) {
  Sweep sweep{.name = "test", .variants = {variant_of(1e6, 1, 1)}};
  sweep.variants[0].precision = "fp16";
  analyse(sweep);
  EXPECT_EQ(sweep.variants[0].predicted, 0);
  EXPECT_TRUE(
      test::holds(join(sentences_of(sweep, sweep.variants[0]), "\n"), "the peak of fp16 is not measured"));
  EXPECT_EQ(roofline_cells(sweep).rows.size(), 1u) << "what was measured stays";
}

TEST(Sweep, JsonGivesTheSameSweepBack) {
  Sweep sweep{.name = "test", .key = "model.width", .latency_ms = 80, .variants = {variant_of(1e6, 2, 1.5)}};
  sweep.variants[0].value = "64";
  sweep.variants[0].points.push_back(summarise_point(2048, {failed_round("out of memory")}));
  sweep.variants.push_back({.value = "128", .failure = "does not fit"});
  analyse(sweep);
  const Json json = to_json(sweep);
  EXPECT_EQ(to_json(sweep_from_json(Json::parse(json.dump()))), json);
}

// A round of which each stage reaches so many samples a second by itself, and the whole `whole`.
StudyResult pipeline(double whole, double loading, double forward) {
  return {.name = "",
          .value = {{"samples_per_second", whole},
                    {"drift", nullptr},
                    {"waiting_share", 0.5},
                    {"loading_samples_per_second", loading},
                    {"copying_samples_per_second", 1e6},
                    {"forward_samples_per_second", forward},
                    {"output_samples_per_second", 1e7},
                    {"workers", 2},
                    {"prefetch_batches", 3},
                    {"peak_bytes", 1000}}};
}

TEST(EndToEnd, IsBoundByItsSlowestStage) {
  const EndToEnd slow_disk = summarise_end_to_end({pipeline(95, 100, 900)});
  EXPECT_EQ(slow_disk.slowest(), std::pair(Stage::kLoading, Stage::kForward));
  EXPECT_FALSE(slow_disk.stages_compete());
  EXPECT_EQ(bound_in_words(slow_disk),
            "loading by 2 threads bounds it, at 100 samples/s by itself; next comes the forward pass at 900");
  const EndToEnd slow_model = summarise_end_to_end({pipeline(95, 900, 100)});
  EXPECT_EQ(slow_model.slowest().first, Stage::kForward);
  EXPECT_TRUE(test::holds(bound_in_words(slow_model), "the forward pass bounds it"));
}

TEST(EndToEnd, StagesOnTheSameCoresTakeTimeFromEachOther) {
  const EndToEnd shared = summarise_end_to_end({pipeline(60, 100, 120)});
  EXPECT_TRUE(shared.stages_compete());
  EXPECT_TRUE(test::holds(bound_in_words(shared),
                          "loading by 2 threads and the forward pass take time from each other"));
}

TEST(EndToEnd, OfSeveralRoundsTheMedianCountsAndOneThatFailedIsTheReason) {
  const EndToEnd all =
      summarise_end_to_end({pipeline(90, 100, 900), pipeline(50, 110, 900), pipeline(95, 120, 800)});
  EXPECT_EQ(all.samples_per_second, 90);
  EXPECT_EQ(all.loading, 110);
  EXPECT_NEAR(*all.drift, 0.9, 1e-12);
  EXPECT_EQ(summarise_end_to_end({pipeline(90, 100, 900), failed_round("no memory\n  try: less")}).failure,
            "no memory");
}

TEST(EndToEnd, TheBestBatchIsToldAndKeptInJsonAndCsv) {
  Sweep sweep{.name = "test", .variants = {variant_of(1e6, 1, 1)}};
  sweep.variants[0].end_to_end[4] = summarise_end_to_end({pipeline(90, 100, 900)});
  sweep.variants[0].end_to_end[8] = summarise_end_to_end({pipeline(97, 100, 1000)});
  sweep.variants[0].end_to_end[16] = summarise_end_to_end({failed_round("out of memory")});
  analyse(sweep);
  const std::string said = join(sentences_of(sweep, sweep.variants[0]), "\n");
  EXPECT_TRUE(test::holds(
      said,
      "the most is 97.0 samples/s, at batch 8, 10 % of its forward pass alone: loading by 2 threads "
      "bounds it, at 100 samples/s by itself; next comes the forward pass at 1.00k"));
  EXPECT_EQ(to_json(sweep_from_json(to_json(sweep))), to_json(sweep));
  const Json points = to_json(sweep).at("variants")[0].at("points");
  EXPECT_EQ(points[3].at("end_to_end").at("slowest_stage"), "loading");
  EXPECT_EQ(points[4].at("end_to_end").at("failure"), "out of memory");
  EXPECT_TRUE(points[0].at("end_to_end").is_null());
  EXPECT_TRUE(test::holds(to_csv(sweep), ",97,,0.5,100,1000000,1000,10000000,2,3,1000,loading,false\r\n"));
  EXPECT_EQ(end_to_end_cells(sweep).rows.size(), 3u);
  Json older = to_json(sweep);
  for (Json& point : older["variants"][0]["points"]) point.erase("end_to_end");
  EXPECT_TRUE(sweep_from_json(older).variants[0].end_to_end.empty()) << "of an earlier version";
}

// So a column that is added to the list needs no other place.
TEST(Sweep, EveryFigureOfAPointIsInJsonCsvItsTableAndItsPlots) {
  Sweep sweep{.name = "test", .variants = {variant_of(1e6, 1, 1)}};
  sweep.variants[0].machine["software"] = "test";
  sweep.variants[0].counted = Json::array();
  analyse(sweep);
  const Json point = to_json(sweep).at("variants")[0].at("points")[0];
  const std::string csv = to_csv(sweep), header = csv.substr(0, csv.find('\r'));
  const page::Table table = point_cells(sweep.variants[0]);
  const std::vector<page::Chart> charts = sweep_page(sweep).sections.at(1).charts;
  for (const Column<SweepPoint>& column : point_columns()) {
    SCOPED_TRACE(column.name);
    EXPECT_TRUE(point.contains(column.name));
    EXPECT_TRUE(test::holds(header, "," + column.name + ","));
    EXPECT_TRUE(column.heading.empty() || std::ranges::count(table.header, column.heading) == 1);
    EXPECT_TRUE(!column.plot || std::ranges::count(charts, column.plot->title, &page::Chart::title) == 1);
  }
}

TEST(Sweep, CsvHasARowForEveryPointWithAsManyCellsAsItsHeader) {
  Sweep sweep{.name = "test", .key = "model.width", .variants = {variant_of(1e6, 1, 1)}};
  sweep.variants[0].points.push_back(summarise_point(2048, {failed_round("no, really")}));
  analyse(sweep);
  const std::string csv = to_csv(sweep);
  EXPECT_EQ(std::ranges::count(csv, '\n'), 13);
  EXPECT_TRUE(test::holds(csv, "\"no, really\""));
  const auto commas = [&](const std::string& line) { return std::ranges::count(line, ','); };
  EXPECT_EQ(commas(csv.substr(0, csv.find('\n'))), 45);
}

}  // namespace
}  // namespace autotrain
