#include "step/precision.h"

#include <algorithm>

#include "device/device.h"
#include "model/models.h"
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

// A model that has been prepared for some precisions.
class Prepared final : public Network {
 public:
  explicit Prepared(std::vector<Precision> precisions = {}) : precisions_(std::move(precisions)) {}
  torch::Tensor forward(torch::Tensor inputs) override { return inputs; }
  bool computes_in(Precision precision) const override {
    return std::ranges::find(precisions_, precision) != precisions_.end();
  }

 private:
  std::vector<Precision> precisions_;
};

TEST(Precision, AutoIsWhatTheDeviceIsGoodAtUnlessTheModelCannotBeComputedInIt) {
  const NamedDevice modern(c10::DeviceType::CPU, true), old(c10::DeviceType::CPU, false),
      old_gpu(c10::DeviceType::CUDA, false);
  const auto found = [](const Device& device, const torch::nn::Module& model) {
    return resolve_precision(Precision::kAuto, device, model);
  };
  const torch::nn::Module any;
  EXPECT_EQ(found(modern, any), Precision::kBf16);
  EXPECT_EQ(found(old, any), Precision::kFp32);
  EXPECT_EQ(found(old_gpu, any), Precision::kFp16);
  const Prepared both({Precision::kFp32, Precision::kBf16}), fp32({Precision::kFp32}),
      bf16({Precision::kBf16}), none;
  for (const Device* const device : {&modern, &old, &old_gpu}) {
    EXPECT_EQ(found(*device, fp32), Precision::kFp32);
    EXPECT_EQ(found(*device, bf16), Precision::kBf16);
    EXPECT_EQ(found(*device, none), found(*device, any));
  }
  EXPECT_EQ(found(modern, both), Precision::kBf16);
  EXPECT_EQ(found(old_gpu, both), Precision::kFp32);
}

TEST(Precision, Tf32IsNeverChosenAndNeverAllowedUnlessItIsAskedFor) {
  NamedDevice gpu(c10::DeviceType::CUDA, /*modern=*/true);
  const torch::nn::Module model;
  EXPECT_NE(resolve_precision(Precision::kAuto, gpu, model), Precision::kTf32);
  for (const Precision asked : {Precision::kFp32, Precision::kBf16, Precision::kFp16}) {
    set_products(asked, gpu);
    EXPECT_FALSE(gpu.tf32_allowed) << to_string(asked);
  }
  EXPECT_EQ(resolve_precision(Precision::kTf32, gpu, model), Precision::kTf32);
  set_products(Precision::kTf32, gpu);
  EXPECT_TRUE(gpu.tf32_allowed);
  EXPECT_FALSE(is_half(Precision::kTf32));
  EXPECT_FALSE(scales_loss(Precision::kTf32));
}

TEST(Precision, Tf32IsRefusedWhereThereIsNone) {
  const NamedDevice old_gpu(c10::DeviceType::CUDA, /*modern=*/false),
      cpu(c10::DeviceType::CPU, /*modern=*/true);
  for (const Device* const device : {&old_gpu, &cpu}) {
    const Error error = test::expect_error(
        ExitCode::kBadRecipe, [&] { resolve_precision(Precision::kTf32, *device, torch::nn::Module()); });
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
