#include "step/precision.h"

#include "device/device.h"
#include "support/support.h"

namespace autotrain {
namespace {

// A device that only says what it is.
class NamedDevice final : public Device {
 public:
  explicit NamedDevice(c10::DeviceType type, bool modern) : Device({}), type_(type), modern_(modern) {}
  c10::Device torch_device() const override { return {type_, 0}; }
  std::string name() const override { return "a test's"; }
  std::string software() const override { return ""; }
  bool has_native_bf16() const override { return modern_; }
  bool has_tf32() const override { return modern_ && type_ == c10::DeviceType::CUDA; }
  void allow_tf32(bool allowed) override { tf32_allowed = allowed; }
  void synchronize() const override {}
  Batch upload(const Batch& batch) override { return batch; }
  MemoryMeter& memory() override { throw std::logic_error("it has none"); }
  int64_t used_by_others_bytes() const override { return 0; }

  bool tf32_allowed = true;  ///< LibTorch's default for convolutions

 private:
  c10::DeviceType type_;
  bool modern_;
};

TEST(Precision, Tf32IsNeverChosenAndNeverAllowedUnlessItIsAskedFor) {
  NamedDevice gpu(c10::DeviceType::CUDA, /*modern=*/true);
  EXPECT_NE(resolve_precision(Precision::kAuto, gpu), Precision::kTf32);
  for (const Precision asked : {Precision::kFp32, Precision::kBf16, Precision::kFp16}) {
    set_products(asked, gpu);
    EXPECT_FALSE(gpu.tf32_allowed) << to_string(asked);
  }
  EXPECT_EQ(resolve_precision(Precision::kTf32, gpu), Precision::kTf32);
  set_products(Precision::kTf32, gpu);
  EXPECT_TRUE(gpu.tf32_allowed);
  EXPECT_FALSE(is_half(Precision::kTf32));
  EXPECT_FALSE(scales_loss(Precision::kTf32));
}

TEST(Precision, Tf32IsRefusedWhereThereIsNone) {
  const NamedDevice old_gpu(c10::DeviceType::CUDA, /*modern=*/false),
      cpu(c10::DeviceType::CPU, /*modern=*/true);
  for (const Device* const device : {&old_gpu, &cpu}) {
    const Error error =
        test::expect_error(ExitCode::kBadRecipe, [&] { resolve_precision(Precision::kTf32, *device); });
    EXPECT_TRUE(test::holds(error.hint(), "compute capability"));
  }
}

TEST(Precision, OnlyHalfPrecisionOnAGpuWantsMultiples) {
  const NamedDevice gpu(c10::DeviceType::CUDA, true), cpu(c10::DeviceType::CPU, true);
  EXPECT_EQ(preferred_multiple(Precision::kBf16, gpu), 8);
  EXPECT_EQ(preferred_multiple(Precision::kFp16, gpu), 8);
  EXPECT_EQ(preferred_multiple(Precision::kFp32, gpu), 1);
  EXPECT_EQ(preferred_multiple(Precision::kTf32, gpu), 1);
  EXPECT_EQ(preferred_multiple(Precision::kBf16, cpu), 1);
}

}  // namespace
}  // namespace autotrain
