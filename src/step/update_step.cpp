#include "step/update_step.h"

#include <ATen/ops/_foreach_norm.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "autotrain/error.h"
#include "base/clock.h"
#include "base/text.h"
#include "device/memory_phase.h"
#include "step/autocast.h"
#include "step/generators.h"
#include "step/update_scalars.h"

namespace autotrain {
namespace {

void check_terms(const LossTerms& terms) {
  const bool scalar =
      terms.sum.defined() && terms.sum.numel() == 1 && terms.weight.defined() && terms.weight.numel() == 1;
  if (scalar && terms.sum.requires_grad()) return;
  throw Error(
      ExitCode::kInternal, "Task::loss",
      !scalar ? "must return a scalar sum and a scalar weight" : "the sum does not depend on any parameter",
      "return {losses.sum(), number of losses} of a forward pass through module()");
}

torch::Tensor as_scalar64(const torch::Tensor& value) {
  return value.detach().to(torch::kFloat64).reshape({});
}

}  // namespace

PendingUpdate::PendingUpdate(const torch::Tensor& figures)
    : host_(figures.to(torch::kCPU, /*non_blocking=*/true)), finished_seconds_(steady_seconds()) {
  if (figures.is_cpu()) return;
  const c10::impl::VirtualGuardImpl device(figures.device().type());
  copied_.emplace(figures.device().type());
  copied_->record(device.getStream(figures.device()));
}

UpdateOutcome PendingUpdate::read() {
  check_invariant(valid(), "a pending update is read once");
  if (copied_) {
    copied_->synchronize();
    finished_seconds_ = steady_seconds();
  }
  const auto* const figures = host_.const_data_ptr<double>();
  UpdateOutcome outcome{.applied = figures[0] != 0,
                        .loss = figures[1],
                        .grad_norm = figures[2],
                        .scale = figures[3],
                        .weight = figures[4],
                        .norms = {.first_squares = figures[5],
                                  .first_weight = figures[6],
                                  .firsts = figures[7],
                                  .square = figures[8] * figures[8],
                                  .weight = figures[4]}};
  if (host_.numel() == 11) {
    outcome.preconditioned_norms = outcome.norms;
    outcome.preconditioned_norms.first_squares = figures[9];
    outcome.preconditioned_norms.square = figures[10];
  }
  host_.reset();
  return outcome;
}

UpdateStep::UpdateStep(Task& task, Optimizer& optimizer, GradScaler& scaler, StepOptions options,
                       WeightAverage* average)
    : task_(task),
      optimizer_(optimizer),
      scaler_(scaler),
      options_(options),
      average_(average),
      buffers_(task.module()),
      totals_(options.lanes, {6}, torch::TensorOptions().dtype(torch::kFloat64).device(options.device)) {
  if (options.static_buffers) {
    // CUDA's fused kernels take no other type.
    const auto type = options.device.is_cpu() ? torch::kFloat64 : torch::kFloat32;
    lr_ = torch::zeros({}, torch::TensorOptions().dtype(type).device(options.device));
  }
  close_window();
}

void UpdateStep::enter(Activity activity) const {
  if (options_.timeline != nullptr) options_.timeline->enter(activity);
}

void UpdateStep::accumulate(const Batch& batch, int64_t window, int64_t offset) {
  if (!window_open_) open_window();
  enter(Activity::kForward);
  seed_for_micro_batch(options_.device, options_.seed, window, offset);
  LossTerms terms;
  {
    const PhaseScope phase(MemoryPhase::kForward);
    const AutocastScope autocast(options_.device.type(), options_.precision);
    const ChangingBuffers::Watch watch(buffers_);
    terms = task_.loss(options_.static_buffers ? at_fixed_address(batch) : batch);
  }
  buffers_.rethrow_failure();
  check_terms(terms);
  enter(Activity::kBackward);
  const PhaseScope phase(MemoryPhase::kBackward);
  const torch::Tensor weight = as_scalar64(terms.weight);
  loss_sum_.add_(as_scalar64(terms.sum));
  weight_sum_.add_(weight);
  const torch::Tensor seed = (scaler_.scale() * options_.loss_factor).to(terms.sum.scalar_type());
  torch::autograd::backward({terms.sum}, {seed.reshape(terms.sum.sizes())});
  if (std::exchange(first_of_lane_, false) && options_.statistics) take_first_norms(weight);
}

// The L2 norm over all gradients as they are, still scaled. It is finite exactly when every gradient
// is (and their squares do not overflow float32), so one pass over memory gives norm and check.
torch::Tensor UpdateStep::scaled_norm() const {
  std::vector<torch::Tensor> gradients;
  for (const NamedTensor& parameter : optimizer_.parameters()) {
    if (parameter.tensor.grad().defined()) gradients.push_back(parameter.tensor.grad());
  }
  if (gradients.empty()) return torch::zeros_like(loss_sum_);
  return at::stack(at::_foreach_norm(gradients)).to(torch::kFloat64).norm();
}

// The gradients are those of the lane's first micro-batch alone now.
void UpdateStep::take_first_norms(const torch::Tensor& weight) {
  const torch::NoGradGuard no_gradients;
  first_norms_.add_(at::stack({scaled_norm().square() / weight, weight, torch::ones_like(weight)}));
  if (takes_preconditioned()) first_preconditioned_.add_(preconditioned_norm_->squared() / weight);
}

// @return the norm before, where there is a penalty and statistics want it; else undefined.
torch::Tensor UpdateStep::add_penalty(const torch::Tensor& divisor) {
  const torch::Tensor penalty = task_.penalty();
  if (!penalty.defined()) return {};
  torch::Tensor before;
  if (options_.statistics) {
    const torch::NoGradGuard no_gradients;
    before = scaled_norm() / divisor;
  }
  torch::autograd::backward({penalty}, {divisor.to(penalty.scalar_type()).reshape(penalty.sizes())});
  return before;
}

void UpdateStep::end_lane() {
  if (!window_open_) open_window();
  if (gradients_) gradients_->end_lane();
  totals_.next();
  attach_totals();
}

void UpdateStep::end_lanes() {
  do end_lane();
  while (!totals_.whole());
}

std::vector<Ranks::Note> UpdateStep::meet(const Ranks::Note& mine, double patience) {
  if (!several()) return {mine};
  constexpr const char *kReached = "reached", *kBody = "note";
  std::vector<Ranks::Note> notes;
  enter(Activity::kCommunication);
  const std::string reached = gradients_ ? gradients_->reached() : "";  // none: stopped before its first pass
  for (Ranks::Note& note : options_.ranks->meet({{kReached, reached}, {kBody, mine}}, patience)) {
    if (gradients_) gradients_->add_reached(note.at(kReached).get_ref<const std::string&>());
    notes.push_back(std::move(note.at(kBody)));
  }
  return notes;
}

// Allocates nothing: see ExactSum.
void UpdateStep::sum_over_ranks() {
  enter(Activity::kCommunication);
  (*gradient_sum_)(gradients_->flat());
  (*total_sum_)(totals_.buffers()[0]);
}

void UpdateStep::prepare(double lr, Apply apply) {
  const PhaseScope phase(MemoryPhase::kUpdate);
  if (several()) sum_over_ranks();
  enter(Activity::kUpdate);
  if (options_.static_buffers) lr_.fill_(lr);
  // Gradients are those of scale × factor × Σ sums; the update wants Σ sums ÷ Σ weights.
  const GradientScale scale(scaler_.scale(), options_.loss_factor, weight_sum_);
  torch::Tensor preconditioned;
  if (takes_preconditioned()) preconditioned = preconditioned_norm_->squared() / scale.of_mean.square();
  const torch::Tensor norm_before_penalty = add_penalty(scale.of_mean);
  if (gradients_) gradients_->leave_reached();

  const torch::NoGradGuard no_gradients;
  const UpdateScalars scalars = update_scalars({.loss_sum = loss_sum_,
                                                .weight_sum = weight_sum_,
                                                .first_norms = first_norms_,
                                                .first_preconditioned = first_preconditioned_,
                                                .scaled_norm = scaled_norm(),
                                                .own_norm = norm_before_penalty,
                                                .preconditioned = preconditioned},
                                               scale, options_.clip_norm, apply == Apply::kForceSkip);
  prepared_ = {.update = {.lr = lr,
                          .lr_on_device = lr_,
                          .grad_scale = scalars.grad_scale,
                          .found_inf = scalars.skipped},
               .average_step = average_ ? average_->step_for(scalars.skipped) : torch::Tensor(),
               .found_inf = scalars.found_inf,
               .applies = scalars.applies,
               .figures = PendingUpdate(scalars.figures)};
}

// No line allocates on the device.
PendingUpdate UpdateStep::commit() {
  const torch::NoGradGuard no_gradients;
  const PhaseScope phase(MemoryPhase::kUpdate);
  check_invariant(prepared_.has_value(), "an update is prepared before it is committed");
  committing_ = true;
  Prepared prepared = *std::exchange(prepared_, std::nullopt);
  optimizer_.apply(prepared.update);
  if (shard_) {
    enter(Activity::kCommunication);
    shard_->spread_parameters();
    enter(Activity::kUpdate);
  }
  if (average_) average_->update(prepared.average_step);
  scaler_.update(prepared.found_inf);
  buffers_.restore_unless(prepared.applies);
  buffers_.settle();
  close_window();
  committing_ = false;
  return std::move(prepared.figures);
}

PendingUpdate UpdateStep::finish(double lr, Apply apply) {
  end_lanes();
  prepare(lr, apply);
  return commit();
}

// The next call goes on where one ran out of memory.
void UpdateStep::have_buffers() {
  if (!gradients_ && (options_.static_buffers || options_.lanes > 1 || several())) {
    const int64_t parts = several() ? options_.ranks->place().world : 1;
    gradients_ = std::make_unique<FlatGradients>(FlatLayout(optimizer_.parameters(), parts), options_.lanes);
  }
  if (options_.preconditioned_norms && optimizer_.second_moment() && !preconditioned_norm_)
    preconditioned_norm_ = std::make_unique<PreconditionedNorm>(optimizer_);
  if (!several() || total_sum_) return;
  Exchange& exchange = options_.ranks->exchange();
  const Place& place = options_.ranks->place();
  const torch::Tensor &flat = gradients_->flat(), &totals = totals_.buffers()[0];
  gradient_sum_ = std::make_unique<ExactSum>(exchange, place, flat.numel(), flat.options());
  if (optimizer_.sharded()) {
    std::vector<torch::Tensor> buffers = {flat, gradient_sum_->spare()};
    while (buffers.size() < optimizer_.states().size()) buffers.push_back(torch::empty_like(flat));
    shard_ = std::make_unique<Shard>(optimizer_, gradients_->layout(), exchange, std::move(buffers));
  }
  total_sum_ = std::make_unique<SmallSum>(exchange, place, totals.numel(), totals.options());
}

Shard* UpdateStep::shard() {
  if (optimizer_.sharded()) have_buffers();
  return shard_.get();
}

void UpdateStep::open_window() {
  buffers_.save();
  have_buffers();
  if (gradients_) gradients_->open();
  totals_.open();
  attach_totals();
  window_open_ = true;
}

void UpdateStep::attach_totals() {
  const torch::Tensor& totals = totals_.buffers()[totals_.current()];
  loss_sum_ = totals[0];
  weight_sum_ = totals[1];
  first_norms_ = totals.slice(0, 2, 5);
  first_preconditioned_ = totals[5];
  first_of_lane_ = true;
}

// Its copy among those that stay, made at the first micro-batch of its shape.
const Batch& UpdateStep::at_fixed_address(const Batch& batch) {
  const auto alike = [](const torch::Tensor& a, const torch::Tensor& b) {
    return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type();
  };
  const std::vector<torch::Tensor> tensors = batch.tensors();
  for (const Batch& kept : batches_) {
    const std::vector<torch::Tensor> there = kept.tensors();
    if (!std::ranges::equal(there, tensors, alike)) continue;
    for (size_t i = 0; i < there.size(); ++i) there[i].copy_(tensors[i], /*non_blocking=*/true);
    return kept;
  }
  return batches_.emplace_back(batch.with_each([](const torch::Tensor& tensor) { return tensor.clone(); }));
}

void UpdateStep::abandon() {
  if (window_open_) buffers_.restore();
  close_window();
}

void UpdateStep::close_window() {
  window_open_ = false;
  prepared_.reset();
  for (const NamedTensor& parameter : optimizer_.parameters()) parameter.tensor.mutable_grad().reset();
  // In place: this also runs while memory is short, and must not need any.
  totals_.open();
  attach_totals();
}

std::string UpdateStep::first_non_finite_gradient() const {
  for (const NamedTensor& parameter : optimizer_.parameters()) {
    const torch::Tensor& gradient = parameter.tensor.grad();
    if (gradient.defined() && !at::isfinite(gradient).all().item<bool>()) return parameter.name;
  }
  return "";
}

double UpdateStep::lane_weight() const {
  return weight_sum_.item<double>();
}

EvaluationTerms evaluate_batch(Task& task, const Batch& batch, Precision precision) {
  const PhaseScope phase(MemoryPhase::kEvaluation);
  const torch::NoGradGuard no_gradients;
  const AutocastScope autocast(batch.inputs.device().type(), precision);
  return task.evaluate(batch);
}

double loss_factor_for(double weight) {
  return weight > 0 ? std::exp2(-std::round(std::log2(weight))) : 1;
}

}  // namespace autotrain
