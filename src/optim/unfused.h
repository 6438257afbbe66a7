#pragma once

#include "optim/optimizer.h"

namespace autotrain {

/// An optimizer that LibTorch has no fused kernel for: plain kernels, on a CPU over one tensor after the
/// other, on a GPU over several at once.
///
/// Every kernel rounds once, element by element, so that bits do not depend on how elements are shared out
/// among threads and ranks, nor on which tensors are updated at once. Kernels that multiply and add at once
/// round otherwise at the end of a vector.
///
/// An update allocates nothing, but for the norms of whole tensors on a GPU, which borrow some KiB.
class UnfusedOptimizer : public Optimizer {
 public:
  int64_t scratch_bytes() const final { return scratch_.numel() * int64_t{sizeof(float)}; }

 protected:
  explicit UnfusedOptimizer(Trained trained);

  /// Members of one group that are updated at once: lists of one length, tensors of one shape in each place.
  /// Gradients and scratch may be overwritten.
  struct Parts {
    std::vector<size_t> members = {};
    std::vector<torch::Tensor> parameters = {};
    std::vector<torch::Tensor> gradients = {};  ///< divided by the scale
    std::vector<torch::Tensor> scratch = {};
    torch::Tensor all_scratch = {};  ///< the memory in which `scratch` lies
  };

  virtual void before_parts(const Update&) {}  ///< once an update
  virtual void before_group() {}               ///< with `rate` and `decay` those of the group
  virtual void apply_parts(const Parts& parts) = 0;

  /// A float32 scalar on the device: a number in its place would be allocated at every use.
  torch::Tensor constant(double value) const;

  /// The elements of a per-parameter state that belong to `parts`.
  static std::vector<torch::Tensor> of(const Parts& parts, const std::vector<torch::Tensor>& state);

  /// `from` −= scratch, or nothing when the update is skipped. The scratch is lost.
  void subtract_scratch(at::TensorList from, const Parts& parts) const;

  /// Means move towards values by `share`: mean −= share × (mean − value). The scratch is lost, and no value
  /// lies in it.
  void move(at::TensorList means, at::TensorList values, const torch::Tensor& share,
            const Parts& parts) const;

  /// Means of squares move towards the gradients' squares. @param minus_share −share. The scratch is lost.
  void move_to_squares(at::TensorList means, const torch::Tensor& minus_share, const Parts& parts) const;

  /// parameter −= rate × decay × parameter (Loshchilov and Hutter 2019). The scratch is lost.
  void decay_parameters(const Parts& parts) const;

  /// Elements of the largest part that it updates.
  int64_t largest_part() const { return largest_part_; }

  bool decays() const { return decays_; }
  const torch::Tensor& decay() const { return decay_; }      ///< scalar float32
  const torch::Tensor& rate() const { return rate_; }        ///< scalar float32
  const torch::Tensor& skipped() const { return skipped_; }  ///< scalar bool

 private:
  void check_are_float32() const;
  void before_groups(const Update& update) final;
  void apply_group(const Group& group, const Lists& lists, const Update& update) final;
  void set_rate(const Group& group, const Update& update);
  Parts parts_from(const Lists& lists, size_t first) const;
  torch::Tensor scratch_for(const torch::Tensor& part, int64_t offset) const;

  int64_t together_ = 0;  // elements of parts that are updated at once; a larger one is so by itself
  int64_t largest_part_ = 0;
  torch::Tensor scratch_;  // [elements] float32
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
