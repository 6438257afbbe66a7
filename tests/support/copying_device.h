#pragma once

#include <memory>
#include <string>

#include "device/device.h"

namespace autotrain::test {

/// A CPU that behaves as a device with memory of its own: what is uploaded is a copy, batches in main memory
/// cost nothing of the budget, and `ahead` uploaded ones may stand beside the one that is worked on.
class CopyingDevice final : public Device {
 public:
  explicit CopyingDevice(std::unique_ptr<Device> cpu, int64_t ahead = 1)
      : Device({cpu->budget_bytes(), cpu->budget_source()}), cpu_(std::move(cpu)), ahead_(ahead) {}

  c10::Device torch_device() const override { return cpu_->torch_device(); }
  std::string name() const override { return cpu_->name(); }
  std::string software() const override { return cpu_->software(); }
  bool has_native_bf16() const override { return cpu_->has_native_bf16(); }
  void synchronize() const override {}
  Batch upload(const Batch& batch) override {
    return batch.with_each([](const torch::Tensor& tensor) { return tensor.clone(); });
  }
  int64_t batches_ahead() const override { return ahead_; }
  bool counts_main_memory() const override { return false; }
  MemoryMeter& memory() override { return cpu_->memory(); }
  int64_t used_by_others_bytes() const override { return cpu_->used_by_others_bytes(); }

 private:
  std::unique_ptr<Device> cpu_;
  int64_t ahead_;
};

}  // namespace autotrain::test
