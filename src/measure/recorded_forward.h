#pragma once

#include <functional>
#include <memory>
#include <string>

#include "autotrain/batch.h"
#include "autotrain/recipe.h"
#include "device/call_seconds.h"
#include "device/device.h"

namespace autotrain {

/// A forward pass without gradients whose kernels are recorded for one batch and replayed, where the device
/// records and the recipe does not forbid it: at small batches a GPU waits for launches otherwise.
class RecordedForward {
 public:
  using Forward = std::function<torch::Tensor(const Batch&)>;

  /// @param device must outlive this object. @param forward gives the output, on the device.
  RecordedForward(Device& device, CudaGraphs asked, Forward forward)
      : device_(device), asked_(asked), forward_(std::move(forward)) {}

  /// Records the pass over `batch`, whose memory `replay` reads from then on; of `auto` only where launching
  /// takes longer. Runs it some ten times. What was recorded before is forgotten. Precondition: it has run at
  /// this shape.
  /// @return whether it was; why not: `why_not`.
  bool record(const Batch& batch);

  /// Whether a recording is there for batches of this shape.
  bool holds_for(const Batch& batch) const;

  /// The output for `batch`, which is copied to where the recorded one lies, unless it is that one. It is
  /// overwritten by the next call. Precondition: `holds_for`.
  torch::Tensor replay(const Batch& batch);

  /// Drops the recording and its memory.
  void forget();

  /// "" where nothing was recorded because nobody asked, or the device never does.
  const std::string& why_not() const { return why_not_; }

 private:
  CallSeconds seconds_of(const std::function<void()>& call);
  std::string try_to_record(const Batch& batch);

  Device& device_;
  const CudaGraphs asked_;
  const Forward forward_;
  Batch batch_;
  torch::Tensor output_;
  std::unique_ptr<RecordedWork> recorded_;
  std::string why_not_;
};

}  // namespace autotrain
