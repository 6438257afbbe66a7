#include "device/host_mover.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace autotrain {
namespace {

class StreamMover final : public HostMover {
 public:
  explicit StreamMover(torch::Device device)
      : device_(device), guard_(device.type()), side_(guard_.getStreamFromGlobalPool(device)) {}

  torch::Device device() const override { return device_; }

  torch::Tensor to_host(const torch::Tensor& bytes) override {
    const torch::NoGradGuard no_gradients;
    torch::Tensor host = at::empty(bytes.sizes(), at::TensorOptions(torch::kByte).pinned_memory(true));
    copy_behind(host, bytes);
    bytes.record_stream(side_);
    return host;
  }

  Arrival to_device(const torch::Tensor& host) override {
    const torch::NoGradGuard no_gradients;
    const torch::Tensor bytes = at::empty(host.sizes(), at::TensorOptions(torch::kByte).device(device_));
    copy_behind(bytes, host);  // by then whoever had this memory before is done with it
    bytes.record_stream(side_);
    const auto arrived = std::make_shared<c10::Event>(device_.type());
    arrived->record(side_);
    return {bytes, [this, arrived] { arrived->block(guard_.getStream(device_)); }};
  }

 private:
  // Copies once all that was launched before is computed.
  void copy_behind(torch::Tensor to, const torch::Tensor& from) const {
    c10::Event computed(device_.type());
    computed.record(guard_.getStream(device_));
    computed.block(side_);
    const c10::StreamGuard on_side(side_);
    to.copy_(from, /*non_blocking=*/true);
  }

  torch::Device device_;
  c10::impl::VirtualGuardImpl guard_;
  c10::Stream side_;
};

}  // namespace

std::shared_ptr<HostMover> host_mover(torch::Device device) {
  return device.is_cpu() ? nullptr : std::make_shared<StreamMover>(device);
}

}  // namespace autotrain
