#include "plan/inference_search.h"

#include "base/text.h"
#include "base/units.h"
#include "device/device.h"
#include "support/support.h"

namespace autotrain {
namespace {

using test::expect_error;
using test::holds;

// A device whose memory is a number, which a trial sets: `each` bytes a sample above a floor.
class FakeMemory final : public MemoryMeter {
 public:
  int64_t allocated_bytes() const override { return 0; }
  int64_t reserved_bytes() const override { return 0; }
  int64_t sample_outside_bytes() override { return 0; }
  MemoryPeak peak() const override { return {.allocated_bytes = peak_, .reserved_bytes = peak_}; }
  void reset_peak() override { peak_ = 0; }
  void set_limit(int64_t bytes) override { limit_ = bytes; }
  void remove_limit() override { limit_ = -1; }
  void empty_cache() override {}
  std::optional<Refusal> last_refusal() const override { return refusal_; }

  void take(int64_t bytes) {
    const int64_t most = std::min(limit_, ceiling);
    if (bytes > most) {
      refusal_ = Refusal{.requested_bytes = bytes - most, .reserved_bytes = most};
      throw c10::OutOfMemoryError({__func__, __FILE__, 0}, "refused");
    }
    peak_ = std::max(peak_, bytes);
  }

  int64_t ceiling = int64_t{1} << 60;  // that the system grants

 private:
  int64_t peak_ = 0, limit_ = 0;
  std::optional<Refusal> refusal_;
};

class FakeDevice final : public Device {
 public:
  explicit FakeDevice(int64_t budget) : Device({budget, "asked"}) { memory_.set_limit(budget); }
  c10::Device torch_device() const override { return c10::Device(c10::DeviceType::CPU); }
  std::string name() const override { return "fake"; }
  std::string software() const override { return ""; }
  bool has_native_bf16() const override { return false; }
  void synchronize() const override {}
  Batch upload(const Batch& batch) override { return batch; }
  FakeMemory& memory() override { return memory_; }
  int64_t used_by_others_bytes() const override { return 0; }

 private:
  FakeMemory memory_;
};

// What a forward pass takes.
struct Model {
  int64_t floor_bytes = 100'000;
  int64_t bytes = 1'000;       // a sample
  double seconds = 0.001;      // a pass
  double each_seconds = 1e-5;  // a sample
};

SearchResult find(FakeDevice& device, const Model& model, InferenceRequest request) {
  return find_inference_batch(device, request, [&](int64_t batch) {
    device.memory().take(model.floor_bytes + batch * model.bytes);
    return model.seconds + static_cast<double>(batch) * model.each_seconds;
  });
}

TEST(InferenceSearch, FillsTheBandOfAnyMemory) {
  const ExecutionRecipe execution;
  for (const int64_t budget : {200'000, 1'000'000, 30'000'000, 2'000'000'000}) {
    for (const int64_t bytes : {700, 1'000, 13'000}) {
      FakeDevice device(budget);
      const Model model{.bytes = bytes};
      const SearchResult found =
          find(device, model, {.execution = execution, .samples = 100'000'000, .floor_bytes = 100'000});
      EXPECT_EQ(found.reason, budget == 200'000 && bytes == 13'000 ? found.reason : SearchReason::kInBand);
      EXPECT_LE(found.fill, execution.memory.target_high);
      const auto one_more = model.floor_bytes + (found.micro_batch + 1) * bytes;
      EXPECT_GE(static_cast<double>(one_more), execution.memory.target_low * static_cast<double>(budget));
      EXPECT_NE(find_size(found.probes, found.micro_batch), nullptr) << "it was run";
    }
  }
}

TEST(InferenceSearch, NoBatchIsLargerThanTheData) {
  const ExecutionRecipe execution;
  FakeDevice device(1'000'000'000);
  const SearchResult found = find(device, {}, {.execution = execution, .samples = 333});
  EXPECT_EQ(found.micro_batch, 333);
  EXPECT_EQ(found.reason, SearchReason::kDataset);
}

TEST(InferenceSearch, TheLargestBatchWithinTheLatencyIsFoundAsNearAsAClockTells) {
  const ExecutionRecipe execution;
  for (const int64_t most : {1, 2, 15, 16, 17, 100, 1'000, 1'023}) {
    FakeDevice device(1'000'000'000);
    const Model model;
    const double latency = model.seconds + (static_cast<double>(most) + 0.5) * model.each_seconds;
    const SearchResult found =
        find(device, model, {.execution = execution, .samples = 100'000, .latency_seconds = latency});
    EXPECT_LE(found.micro_batch, most);
    EXPECT_GE(static_cast<double>(found.micro_batch), 0.95 * static_cast<double>(most + 1) - 1);
    EXPECT_EQ(found.reason, SearchReason::kLatency);
    EXPECT_LE(forward_seconds(*find_size(found.probes, found.micro_batch)), latency);
    for (const ProbeRecord& one : found.probes) {
      for (const ProbeRecord& other : found.probes) {
        const auto apart = static_cast<double>(other.micro_batch - one.micro_batch);
        EXPECT_FALSE(apart > 1 && apart < 0.02 * static_cast<double>(one.micro_batch))
            << "the clock cannot tell " << one.micro_batch << " from " << other.micro_batch;
      }
    }
  }
}

TEST(InferenceSearch, ALatencyThatOneSampleDoesNotKeepIsRefused) {
  const ExecutionRecipe execution;
  FakeDevice device(1'000'000'000);
  const Error error = expect_error(ExitCode::kDoesNotFit, [&] {
    find(device, {}, {.execution = execution, .samples = 100, .latency_seconds = 0.001});
  });
  EXPECT_EQ(error.where(), "--latency-ms");
  EXPECT_TRUE(holds(error.problem(), "1.01 ms"));
}

TEST(InferenceSearch, AModelThatDoesNotFitWithOneSampleIsRefused) {
  const ExecutionRecipe execution;
  FakeDevice device(99'000);
  expect_error(ExitCode::kDoesNotFit, [&] { find(device, {}, {.execution = execution, .samples = 100}); });
}

TEST(InferenceSearch, ATypedSizeIsTriedAndStands) {
  const ExecutionRecipe execution;
  FakeDevice device(1'000'000);
  SearchResult found = find(device, {}, {.execution = execution, .samples = 5'000, .typed = 17});
  EXPECT_EQ(found.micro_batch, 17);
  EXPECT_EQ(found.reason, SearchReason::kFixed);
  EXPECT_EQ(found.probes.size(), 1U);
  found = find(device, {}, {.execution = execution, .samples = 5'000, .typed = 890});
  EXPECT_EQ(found.micro_batch, 890) << "above the band, inside the budget";
  const Error error = expect_error(ExitCode::kDoesNotFit, [&] {
    find(device, {}, {.execution = execution, .samples = 5'000, .typed = 901});
  });
  EXPECT_EQ(error.where(), "--batch");
}

TEST(InferenceSearch, WhereEvenOneSampleIsAboveTheBandItFillsWhatIsInsideTheBudget) {
  const ExecutionRecipe execution;
  FakeDevice device(1'000'000'000);
  const Model model{.floor_bytes = 920'000'000, .bytes = 100'000};
  const SearchResult found = find(device, model, {.execution = execution, .samples = 100'000'000});
  EXPECT_EQ(found.reason, SearchReason::kAboveBand);
  EXPECT_GE(found.micro_batch, 300);
  EXPECT_LE(found.peak_bytes, 1'000'000'000);
}

TEST(InferenceSearch, WhatIsNotGrantedIsNotTheBudget) {
  const ExecutionRecipe execution;
  FakeDevice device(1'000'000'000);
  device.memory().ceiling = 500'000'000;
  const SearchResult found = find(device, {}, {.execution = execution, .samples = 100'000'000});
  EXPECT_LE(found.peak_bytes, 9 * device.budget_bytes() / 10);
  EXPECT_LE(found.peak_bytes, 500'000'000);
  EXPECT_LT(device.budget_bytes(), 600'000'000);
}

TEST(InferenceSearch, ABudgetThatIsLoweredTwiceSaysItsSourceOnce) {
  const ExecutionRecipe execution;
  FakeDevice device(1'000'000'000);
  device.memory().ceiling = 500'000'000;
  const Model model;
  const auto trial = [&](int64_t batch) {
    device.memory().take(model.floor_bytes + batch * model.bytes);
    return model.seconds;
  };
  const auto take_some = [&](const ProbeRecord& record) {  // as others on the machine do
    if (record.refused_bytes > 0) device.memory().ceiling = 200'000'000;
  };
  find_inference_batch(device, {.execution = execution, .samples = 100'000'000}, trial,
                       {.on_end = take_some});
  EXPECT_LT(device.budget_bytes(), 400'000'000);
  EXPECT_EQ(device.budget_source(), cat("asked, of which 954 MiB were announced and ",
                                        format_bytes(device.budget_bytes()), " granted"));
}

TEST(InferenceSearch, AnErrorThatIsNotAboutMemoryIsAnError) {
  const ExecutionRecipe execution;
  FakeDevice device(1'000'000);
  const InferenceRequest request{.execution = execution, .samples = 10};
  EXPECT_THROW(
      find_inference_batch(device, request, [](int64_t) -> double { throw std::runtime_error("broken"); }),
      std::runtime_error);
}

}  // namespace
}  // namespace autotrain
