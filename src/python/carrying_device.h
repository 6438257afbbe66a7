#pragma once

#include <memory>

#include "device/device.h"

namespace autotrain {

/// The device with what a process holds of it already for its training: weights, buffers and the optimizer's
/// state that were there before the meter. They are in the budget and in every figure, as if they had been
/// allocated under it. Holds the device and its limit until it ends.
class CarryingDevice final : public Device {
 public:
  /// @param asked the budget, of all that the process could have with what it carries.
  /// @throws Error(kDoesNotFit) when what is carried is as much as the budget.
  CarryingDevice(std::unique_ptr<Device> inner, const Budget& asked, int64_t carried_bytes);
  ~CarryingDevice() override;

  c10::Device torch_device() const override { return inner_->torch_device(); }
  std::string name() const override { return inner_->name(); }
  std::string bus_id() const override { return inner_->bus_id(); }
  std::string software() const override { return inner_->software(); }
  bool has_native_bf16() const override { return inner_->has_native_bf16(); }
  void synchronize() const override { inner_->synchronize(); }
  Batch upload(const Batch& batch) override { return inner_->upload(batch); }
  MemoryMeter& memory() override { return *meter_; }
  int64_t used_by_others_bytes() const override { return inner_->used_by_others_bytes(); }
  int64_t obtainable_bytes() const override { return inner_->obtainable_bytes() + carried_bytes_; }

  int64_t carried_bytes() const { return carried_bytes_; }

 private:
  const std::unique_ptr<Device> inner_;
  const int64_t carried_bytes_;
  const std::unique_ptr<MemoryMeter> meter_;
};

}  // namespace autotrain
