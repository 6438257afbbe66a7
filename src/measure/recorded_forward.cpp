#include "measure/recorded_forward.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "device/failure.h"

namespace autotrain {
namespace {

constexpr int kTimedCalls = 5;

bool same_layout(const torch::Tensor& a, const torch::Tensor& b) {
  return a.sizes() == b.sizes() && a.strides() == b.strides() && a.scalar_type() == b.scalar_type();
}

}  // namespace

// The shortest of a few.
CallSeconds RecordedForward::seconds_of(const std::function<void()>& call) {
  CallSeconds best = seconds_of_call(device_, call);
  for (int i = 1; i < kTimedCalls; ++i) {
    if (const CallSeconds next = seconds_of_call(device_, call); next.whole < best.whole) best = next;
  }
  return best;
}

bool RecordedForward::record(const Batch& batch) {
  forget();
  try {
    why_not_ = try_to_record(batch);
  } catch (const CannotRecord& reason) {
    why_not_ = reason.what();
  } catch (const std::exception& error) {
    const Failure failure = classify_failure(error);
    if (failure != Failure::kOutOfMemory && failure != Failure::kLibraryMemory) throw;
    why_not_ = "memory does not suffice: " + first_line(error);
  }
  if (!why_not_.empty()) forget();
  return recorded_ != nullptr;
}

std::string RecordedForward::try_to_record(const Batch& batch) {
  const auto recorder = asked_ == CudaGraphs::kOff ? nullptr : device_.make_recorder();
  if (!recorder) return "";
  const CallSeconds launched = seconds_of([&] { forward_(batch); });
  if (asked_ == CudaGraphs::kAuto && !launches_show(launched))
    return "launches hide behind the device's work";
  batch_ = batch;
  recorded_ = recorder->record([this] { output_ = forward_(batch_); });
  recorded_->replay();
  // Other samples than it was recorded with, and then those again.
  const Batch mine = batch.with_each([](const torch::Tensor& tensor) { return tensor.clone(); });
  const Batch turned = !batch.shared.empty()
                           ? mine
                           : batch.with_each([](const torch::Tensor& tensor) { return tensor.flip({0}); });
  const bool alike = replay(turned).equal(forward_(turned));
  replay(mine);
  if (!alike) return "replayed, the model gives another output";
  const CallSeconds replayed = seconds_of([&] { recorded_->replay(); });
  return asked_ == CudaGraphs::kAuto && replayed.whole > launched.whole ? "launched it is faster" : "";
}

bool RecordedForward::holds_for(const Batch& batch) const {
  return recorded_ != nullptr && std::ranges::equal(batch_.tensors(), batch.tensors(), same_layout);
}

torch::Tensor RecordedForward::replay(const Batch& batch) {
  const std::vector<torch::Tensor> there = batch_.tensors(), tensors = batch.tensors();
  for (size_t i = 0; i < there.size(); ++i) {
    if (!there[i].is_same(tensors[i])) there[i].copy_(tensors[i], /*non_blocking=*/true);
  }
  recorded_->replay();
  return output_;
}

void RecordedForward::forget() {
  recorded_.reset();
  output_ = torch::Tensor();
  batch_ = {};
}

}  // namespace autotrain
