#include "device/device_error.h"

#include <c10/util/Exception.h>

#include <cstdio>
#include <cstdlib>
#include <thread>

#include "base/child.h"
#include "device/failure.h"
#include "device/gpu_facts.h"
#include "support/support.h"

namespace autotrain {
namespace {

using test::expect_error;
using test::holds;
using test::TemporaryFolder;

[[noreturn]] void lose_device(int32_t code = 719, const std::string& text = "unspecified launch failure") {
  throw c10::AcceleratorError({__func__, __FILE__, 1}, code, "CUDA error: " + text);
}

// Memory that is freed when the device is lost.
struct FreedTooLate {
  ~FreedTooLate() { lose_device(); }
};

LostDeviceScope::Leave exits_with(int code) {
  return [code](const DeviceLost& error) -> DeviceLost {
    std::fprintf(stderr, "%s\n", error.what());
    std::_Exit(code);
  };
}

TEST(DeviceError, AnErrorThatIsNotTheDevicesStaysWhatItIs) {
  EXPECT_THROW(naming_device_errors([] { throw std::out_of_range("x"); }), std::out_of_range);
  EXPECT_THROW(naming_device_errors([] { throw std::bad_alloc(); }), std::bad_alloc);
  expect_error(ExitCode::kBadData, [] {
    naming_device_errors([] { throw Error(ExitCode::kBadData, "here", "CUDA error: unknown error"); });
  });
  EXPECT_EQ(naming_device_errors([] { return 7; }), 7);
}

TEST(DeviceError, ALostDeviceHasACodeOfItsOwn) {
  const Error error =
      expect_error(ExitCode::kDeviceLost, [] { naming_device_errors([] { lose_device(); }); });
  EXPECT_TRUE(holds(error.what(), "unspecified launch failure"));
  EXPECT_TRUE(holds(error.hint(), "nvidia-smi"));
  const Error index = expect_error(ExitCode::kDeviceLost, [] {
    naming_device_errors([] { lose_device(710, "device-side assert triggered"); });
  });
  EXPECT_TRUE(holds(index.what(), "out of range"));
  EXPECT_TRUE(holds(index.hint(), "execution.device=cpu"));
}

TEST(DeviceError, AnOperatorThatDoesNotRepeatIsNamedWithWhatToUseInItsPlace) {
  const auto of = [](const std::string& text) {
    return expect_error(ExitCode::kBadRecipe,
                        [&] { naming_device_errors([&] { throw std::runtime_error(text); }); });
  };
  const Error error =
      of("adaptive_avg_pool2d_backward_cuda does not have a deterministic implementation, but you set x");
  EXPECT_EQ(error.where(), "execution.deterministic");
  EXPECT_TRUE(holds(error.problem(), "operator adaptive_avg_pool2d_backward_cuda has no deterministic"));
  EXPECT_TRUE(holds(error.hint(), "1 × 1"));
  EXPECT_TRUE(holds(error.hint(), "execution.deterministic: false"));
  EXPECT_TRUE(
      holds(of("this operation is not deterministic because it uses CuBLAS and you have CUDA >= 10.2").hint(),
            "CUBLAS_WORKSPACE_CONFIG"));
}

TEST(DeviceError, AGpuWithoutKernelsIsNamedByItsCapability) {
  const GpuFactsScope facts({.devices = 1, .capabilities = {"6.1"}});
  const Error error = expect_error(ExitCode::kBadRecipe, [] {
    naming_device_errors(
        [] { lose_device(209, "no kernel image is available for execution on the device"); });
  });
  EXPECT_TRUE(holds(error.problem(), "compute capability 6.1"));
  EXPECT_TRUE(holds(error.hint(), "LibTorch that was built for it"));
}

TEST(DeviceError, AGpuThatTakesNoProcessMoreIsNamed) {
  const Error error = expect_error(ExitCode::kBadRecipe, [] {
    naming_device_errors([] { lose_device(46, "CUDA-capable device(s) is/are busy or unavailable"); });
  });
  EXPECT_EQ(error.where(), "execution.device");
  EXPECT_TRUE(holds(error.problem(), "takes no process more"));
  EXPECT_TRUE(holds(error.hint(), "nvidia-smi"));
}

TEST(LostDeviceScope, TheInnermostIsToldFirstAndEachOnce) {
  std::string order;
  const auto adds = [&](const std::string& name) {
    return [&order, name](const DeviceLost& error) {
      order += name;
      return DeviceLost(error.where(), error.problem() + name, error.hint());
    };
  };
  const LostDeviceScope outer(adds("o"));
  const LostDeviceScope inner(adds("i"));
  const DeviceLost told = leave_lost_device({"device", "lost ", ""});
  EXPECT_EQ(told.problem(), "lost io");
  EXPECT_EQ(leave_lost_device(told).problem(), "lost io");
  EXPECT_EQ(order, "io");
}

TEST(LostDeviceScope, OneThatFailsDoesNotKeepTheOthersFromIt) {
  bool told = false;
  const LostDeviceScope outer([&](const DeviceLost& error) { return told = true, error; });
  const LostDeviceScope inner([](const DeviceLost&) -> DeviceLost { throw std::runtime_error("disk full"); });
  leave_lost_device({"device", "lost", ""});
  EXPECT_TRUE(told);
}

TEST(LostDeviceScope, ADestructorThatMeetsTheLossLeavesAsAnErrorDoes) {
  const TemporaryFolder folder;
  Child child(
      [] {
        const LostDeviceScope outer(exits_with(72));
        const LostDeviceScope inner([](const DeviceLost& error) {
          return DeviceLost(error.where(), error.problem() + ", and update 4 is saved", error.hint());
        });
        const FreedTooLate memory;
        return 0;
      },
      folder / "log");
  EXPECT_EQ(child.wait(), 72);
  EXPECT_TRUE(holds(test::slurp(folder / "log"), "unspecified launch failure, and update 4 is saved"));
}

// What another destructor meets on the way out is left to the scopes that are still to be told.
TEST(LostDeviceScope, OneThatMeetsTheLossAgainDoesNotHang) {
  const TemporaryFolder folder;
  Child child(
      [] {
        const LostDeviceScope outer(exits_with(72));
        const LostDeviceScope inner([](const DeviceLost& error) {
          const FreedTooLate more;
          return error;
        });
        const FreedTooLate memory;
        return 0;
      },
      folder / "log");
  EXPECT_EQ(child.wait(), 72);
}

TEST(LostDeviceScope, WithoutALossTheProcessEndsAsBefore) {
  const TemporaryFolder folder;
  Child child(
      [] {
        const LostDeviceScope scope(exits_with(72));
        std::thread([] { throw std::logic_error("a bug"); }).join();
        return 0;
      },
      folder / "log");
  EXPECT_EQ(child.wait(), -SIGABRT);
}

}  // namespace
}  // namespace autotrain
