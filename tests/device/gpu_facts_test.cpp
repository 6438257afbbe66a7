#include "device/gpu_facts.h"

#include "autotrain/log.h"
#include "device/device.h"
#include "support/support.h"

namespace autotrain {
namespace {

using test::expect_error;
using test::holds;

// A machine with a GPU whose driver takes CUDA 12.2, where LibTorch needs 13.0.
GpuFacts old_driver() {
  return {.error = 35,
          .error_text = "CUDA driver version is insufficient",
          .driver = 12020,
          .runtime = 13000,
          .in_machine = true};
}

DeviceOptions options_of(const std::string& device) {
  return {.device = device, .budget = *Budget::parse("64MiB"), .deterministic = std::nullopt};
}

std::vector<std::string> warnings_of_opening(const DeviceOptions& options) {
  std::vector<std::string> warnings;
  log::set_sink([&](const log::Record& record) { warnings.emplace_back(record.text); }, log::Level::kWarning);
  EXPECT_TRUE(open_device(options)->torch_device().is_cpu());
  log::set_sink(log::terminal_sink(), log::Level::kWarning);
  return warnings;
}

TEST(GpuFacts, EveryReasonHasASentenceAndACure) {
  EXPECT_FALSE(gpu_fault({.devices = 1, .driver = 13000, .runtime = 13000}));
  const auto fault = [](const GpuFacts& facts) { return gpu_fault(facts).value(); };
  EXPECT_TRUE(holds(fault({.error = 35, .driver = 0}).what, "no NVIDIA driver"));
  EXPECT_TRUE(holds(fault({.error = 35, .driver = 0}).cure, "--gpus all"));
  EXPECT_TRUE(holds(fault(old_driver()).what, "up to CUDA 12.2, and this LibTorch is built with CUDA 13.0"));
  EXPECT_TRUE(holds(fault(old_driver()).cure, "newer driver"));
  EXPECT_TRUE(holds(fault({.error = 803, .driver = 13000}).what, "different versions"));
  EXPECT_TRUE(holds(fault({.error = 100, .driver = 13000}).what, "shows no GPU"));
  EXPECT_TRUE(holds(fault({.error = 100, .driver = 13000, .visible = "7"}).what, "CUDA_VISIBLE_DEVICES=7"));
  EXPECT_TRUE(
      holds(fault({.error = 999, .error_text = "unknown error", .driver = 13000}).what, "unknown error"));
  EXPECT_TRUE(holds(fault({.in_build = false}).what, "no CUDA"));
  for (const char* hides : {"", "-1"}) {
    const GpuFault hidden = fault({.error = 100, .driver = 13000, .visible = hides, .in_machine = true});
    EXPECT_TRUE(holds(hidden.what, "CUDA_VISIBLE_DEVICES"));
    EXPECT_TRUE(hidden.meant);
  }
}

TEST(GpuFacts, AGpuThatWasAskedForAndCannotBeHadEndsWithTheReason) {
  const GpuFactsScope facts(old_driver());
  for (const char* name : {"cuda", "cuda:1"}) {
    const Error error = expect_error(ExitCode::kBadRecipe, [&] { open_device(options_of(name)); });
    EXPECT_EQ(error.where(), "execution.device");
    EXPECT_TRUE(holds(error.problem(), std::string(name) + " cannot be had: the NVIDIA driver is too old"));
    EXPECT_TRUE(holds(error.hint(), "execution.device: cpu"));
  }
}

TEST(GpuFacts, OnAMachineWithAGpuThatCannotBeUsedAutoIsTheCpuWithOneWarning) {
  const GpuFactsScope facts(old_driver());
  const auto warnings = warnings_of_opening(options_of("auto"));
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_TRUE(holds(warnings[0], "too old"));
  EXPECT_TRUE(warnings_of_opening(options_of("cpu")).empty());
  DeviceOptions again = options_of("auto");
  again.settled = ResolvedBudget{1 << 26, "asked"};
  EXPECT_TRUE(warnings_of_opening(again).empty()) << "the search has said so";
}

TEST(GpuFacts, AutoIsTheCpuWithoutAWordWhereThereIsNoGpuOrItIsHidden) {
  {
    const GpuFactsScope facts({.error = 35});
    EXPECT_TRUE(warnings_of_opening(options_of("auto")).empty());
  }
  const GpuFactsScope facts({.error = 100, .driver = 13000, .visible = "", .in_machine = true});
  EXPECT_TRUE(warnings_of_opening(options_of("auto")).empty());
}

// Who has a process see one GPU alone may name it by its number among all.
TEST(GpuFacts, ANumberBeyondThoseThatTheProcessSeesIsRefusedWithThem) {
  const auto refused = [](const std::string& device, GpuFacts facts) {
    const GpuFactsScope scope(std::move(facts));
    return expect_error(ExitCode::kBadRecipe, [&] { open_device(options_of(device)); });
  };
  const Error hidden = refused("cuda:1", {.devices = 1, .driver = 13000, .visible = "1"});
  EXPECT_TRUE(holds(hidden.problem(), "cuda:1 cannot be had: this process sees one GPU, which is cuda:0"));
  EXPECT_TRUE(holds(hidden.hint(), "CUDA_VISIBLE_DEVICES=1 has those that it shows numbered from 0"));
  const Error beyond = refused("cuda:8", {.devices = 8, .driver = 13000});
  EXPECT_TRUE(holds(beyond.problem(), "8 GPUs, cuda:0 to cuda:7"));
  EXPECT_FALSE(holds(beyond.hint(), "CUDA_VISIBLE_DEVICES"));
  refused("cuda:-1", {.devices = 8, .driver = 13000});
}

TEST(GpuFacts, ANameThatIsNoDeviceIsRefused) {
  expect_error(ExitCode::kBadRecipe, [] { open_device(options_of("cuda:x")); });
  expect_error(ExitCode::kBadRecipe, [] { open_device(options_of("tpu")); });
}

}  // namespace
}  // namespace autotrain
