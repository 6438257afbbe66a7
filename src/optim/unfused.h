#pragma once

#include "optim/optimizer.h"

namespace autotrain {

/// An optimizer that LibTorch has no fused kernel for: plain kernels over one tensor after the other.
///
/// Every kernel rounds once, element by element, so that bits do not depend on how elements are shared out
/// among threads and ranks. Kernels that multiply and add at once round otherwise at the end of a vector.
class UnfusedOptimizer : public Optimizer {
 public:
  int64_t scratch_bytes() const final { return largest_part_ * int64_t{sizeof(float)}; }

 protected:
  explicit UnfusedOptimizer(Trained trained);

  /// What one member is updated with. All of one shape; gradient and scratch may be overwritten.
  struct Part {
    torch::Tensor parameter;
    torch::Tensor gradient;  ///< divided by the scale
    torch::Tensor scratch;
    size_t member = 0;
  };

  virtual void before_parts(const Update&) {}  ///< once an update
  virtual void before_group() {}               ///< with `rate` and `decay` those of the group
  virtual void apply_part(const Part& part) = 0;

  /// A float32 scalar on the device: a number in its place would be allocated at every use.
  torch::Tensor constant(double value) const;

  /// `from` −= `change`, or nothing when the update is skipped. `change` is lost.
  void subtract(const torch::Tensor& from, const torch::Tensor& change) const;

  /// `mean` moves towards `value` by `share`: mean −= share × (mean − value). The scratch is lost;
  /// `value` may lie in it.
  void move(const torch::Tensor& mean, const torch::Tensor& value, const torch::Tensor& share,
            const torch::Tensor& scratch) const;

  /// parameter −= rate × decay × parameter (Loshchilov and Hutter 2019). The scratch is lost.
  void decay_parameter(const Part& part) const;

  /// Elements of the largest part that it updates.
  int64_t largest_part() const { return largest_part_; }

  bool decays() const { return decays_; }
  const torch::Tensor& decay() const { return decay_; }      ///< scalar float32
  const torch::Tensor& rate() const { return rate_; }        ///< scalar float32
  const torch::Tensor& skipped() const { return skipped_; }  ///< scalar bool

 private:
  void before_groups(const Update& update) final;
  void apply_group(const Group& group, const Lists& lists, const Update& update) final;
  void set_rate(const Group& group, const Update& update);

  int64_t largest_part_ = 0;
  std::vector<torch::Tensor> scratch_;  // of each member, in one memory
  torch::Tensor zero_, rate_, decay_, rate_times_decay_, skipped_;
  bool decays_ = false;
  bool may_be_skipped_ = true;
};

/// Counts applied updates t, as PyTorch's Adam does, and computes 1 − βᵗ, on the device.
class UpdateClock {
 public:
  /// @param step the state that counts: scalar float32.
  explicit UpdateClock(torch::Tensor step);

  void tick(const torch::Tensor& found_inf);

  /// t, live: scalar float32.
  const torch::Tensor& updates() const { return step_; }

  /// out = baseᵗ. Scalars float64 on the device.
  void power(const torch::Tensor& base, torch::Tensor out) const;

  /// A float64 scalar where the clock is.
  torch::Tensor scalar(double value) const;

 private:
  torch::Tensor step_, one_, count_;
};

}  // namespace autotrain
