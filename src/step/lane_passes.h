#pragma once

#include <exception>
#include <optional>
#include <vector>

#include "step/fresh_casts.h"
#include "step/gradient_watch.h"
#include "step/update_step.h"
#include "step/whole_passes.h"

namespace autotrain {

/// The passes of the lane under way, for a task that makes them itself; or where it compares samples of
/// several lanes, those of all lanes of this rank together: the first pass of each comes before the second
/// pass of any.
class UpdateStep::LanePasses final : public WholePasses {
 public:
  /// Of the batches that wait in the step, which must outlive this object.
  explicit LanePasses(UpdateStep& step);

  /// Whether the passes of this step's lanes are made together.
  static bool are_together(const UpdateStep& step);

  /// What then stands among the batches that wait, where a lane ended.
  static Waiting end_of_lane() { return {}; }
  static bool ends_lane(const Waiting& waiting) { return waiting.batch.samples == 0; }

  /// Ends the lane whose gradients and figures are added up now.
  static void end_lane(UpdateStep& step);

  /// Has the task make them. @return what this rank adds to the loss; nothing: another rank stops, and all
  /// will drop the window.
  std::optional<LossTerms> make();

  /// Ends all lanes that are made together, but the last one.
  void end_lanes();

  const std::vector<Batch>& batches() const override;
  void seed(size_t i) override;
  void backward(const torch::Tensor& sum, bool keep_graph) override;
  void backward(const torch::Tensor& outputs, const torch::Tensor& gradient) override;

  bool one_batch() const override { return !is_part(step_) && batches_.size() == 1; }
  void seed_loss() override;
  WholeBatch gather(std::vector<torch::Tensor> parts) override;
  void backward_of_loss(const torch::Tensor& sum) override;
  void backward_of(size_t i, const torch::Tensor& outputs, const torch::Tensor& gradient) override;

 private:
  struct Location {
    size_t lane = 0;  ///< of this rank
    int64_t window = 0, offset = 0;
  };
  static bool is_part(const UpdateStep& step);
  int64_t lanes_of_all() const;
  bool counts_the_loss() const;
  LossTerms asked_task();
  WholeBatch gather_together(std::vector<torch::Tensor> parts);
  void check_gathered() const;
  void refuse_apart() const;
  void check_gradients() const;
  void check_learned_from(const torch::Tensor& sum) const;
  void end_lanes_before(size_t lane);
  void pass(const torch::Tensor& outputs, const torch::Tensor& gradient, bool keep_graph);

  UpdateStep& step_;
  const bool together_;
  std::vector<Batch> batches_;
  std::vector<Location> places_;             // of each batch
  size_t lane_ = 0;                          // under way
  GradientWatch gradients_;                  // which nobody else may change
  mutable std::optional<FreshCasts> casts_;  // of weights that the task may move between passes
  bool went_backward_ = false;
  bool gathered_ = false;
  std::exception_ptr failed_;  // gathering did
};

}  // namespace autotrain
