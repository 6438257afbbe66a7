#include "step/lane_passes.h"

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <utility>

#include "autotrain/error.h"
#include "base/text.h"
#include "device/generators.h"
#include "device/memory_phase.h"
#include "step/autocast.h"
#include "step/backward.h"
#include "step/gathered_rows.h"
#include "step/precision.h"

namespace autotrain {
namespace {

// The loss is the update's: it is counted once, by the first rank.
LossTerms nothing_of(const LossTerms& terms) {
  LossTerms nothing{torch::zeros_like(terms.sum), torch::zeros_like(terms.weight)};
  for (const NamedTensor& part : terms.parts)
    nothing.parts.push_back({part.name, torch::zeros_like(part.tensor)});
  return nothing;
}

}  // namespace

UpdateStep::LanePasses::LanePasses(UpdateStep& step)
    : step_(step), together_(are_together(step)), gradients_(step.optimizer_.parameters()) {
  size_t lane = 0;
  for (const Waiting& each : step.waiting_) {
    if (ends_lane(each)) {
      ++lane;
      continue;
    }
    batches_.push_back(each.batch);
    places_.push_back({lane, each.window, each.offset});
  }
  if (step.own_code_ && is_half(step.options_.precision)) casts_.emplace(step.task_.module());
}

bool UpdateStep::LanePasses::are_together(const UpdateStep& step) {
  return step.makes_passes_ && is_part(step) && !step.task_.splittable();
}

// Whether others have samples of the update too: other lanes of this rank, or other ranks.
bool UpdateStep::LanePasses::is_part(const UpdateStep& step) {
  return step.several() || step.options_.lanes > 1;
}

int64_t UpdateStep::LanePasses::lanes_of_all() const {
  return step_.options_.lanes * (step_.several() ? step_.options_.ranks->place().world : 1);
}

bool UpdateStep::LanePasses::counts_the_loss() const {
  return !step_.several() || step_.options_.ranks->first();
}

void UpdateStep::LanePasses::end_lane(UpdateStep& step) {
  if (step.gradients_) step.gradients_->end_lane();
  step.totals_.next();
  step.attach_totals();
}

void UpdateStep::LanePasses::end_lanes() {
  if (together_) end_lanes_before(static_cast<size_t>(step_.options_.lanes) - 1);
}

void UpdateStep::LanePasses::end_lanes_before(size_t lane) {
  check_gradients();
  for (; lane_ < lane; ++lane_) end_lane(step_);
  gradients_.note();
}

std::optional<LossTerms> UpdateStep::LanePasses::make() {
  if (!batches_.empty()) seed(0);
  try {
    const LossTerms terms = asked_task();
    if (!together_) return terms;
    check_gathered();
    return counts_the_loss() ? terms : nothing_of(terms);
  } catch (const StopElsewhere&) {
    return std::nullopt;
  }
}

// Whatever the task makes of a gathering that failed: the other ranks go by it.
LossTerms UpdateStep::LanePasses::asked_task() {
  try {
    LossTerms terms = step_.task_.passes(*this);
    if (failed_) std::rethrow_exception(failed_);
    check_gradients();
    check_learned_from(terms.sum);
    if (terms.sum.defined()) terms.sum = terms.sum.detach();
    return terms;
  } catch (...) {
    if (failed_) std::rethrow_exception(failed_);
    throw;
  }
}

// Where nothing is to be learned, the sum has no gradient.
void UpdateStep::LanePasses::check_learned_from(const torch::Tensor& sum) const {
  if (went_backward_ || !sum.defined() || !sum.requires_grad()) return;
  throw Error(ExitCode::kBrokenContract, "Task::passes",
              "returns a loss with its graph, and goes backward from nothing: the update would learn nothing",
              "call Passes::backward(sum) for each sum; where nothing is to be learned, return sum.detach()");
}

void UpdateStep::LanePasses::check_gathered() const {
  if (gathered_) return;
  throw Error(ExitCode::kBrokenContract, "Task::passes",
              cat("compares samples (splittable: false), and did not call in_two_passes in an update of ",
                  lanes_of_all(), " lanes"),
              "call it on every rank, also where there are no batches");
}

const std::vector<Batch>& UpdateStep::LanePasses::batches() const {
  if (casts_) casts_->look();
  return batches_;
}

void UpdateStep::LanePasses::seed(size_t i) {
  if (casts_) casts_->look();
  const StepOptions& o = step_.options_;
  seed_for_micro_batch(o.device, o.seed, places_.at(i).window, places_.at(i).offset);
}

// A rank without batches knows how many samples came before, and not the window's number.
void UpdateStep::LanePasses::seed_loss() {
  constexpr int64_t kNoMicroBatch = -1;
  seed_for_micro_batch(step_.options_.device, step_.options_.seed, step_.info_.samples, kNoMicroBatch);
}

WholeBatch UpdateStep::LanePasses::gather(std::vector<torch::Tensor> parts) {
  if (together_) return gather_together(std::move(parts));
  if (!is_part(step_)) return {torch::cat(parts)};
  throw Error(ExitCode::kBrokenContract, "Task::splittable",
              cat("is true, and in_two_passes compares all samples of an update, of which each of ",
                  lanes_of_all(), " lanes would see its own"),
              "return false from Task::splittable, and they are compared over all lanes and ranks");
}

WholeBatch UpdateStep::LanePasses::gather_together(std::vector<torch::Tensor> parts) {
  if (std::exchange(gathered_, true))
    throw Error(ExitCode::kBrokenContract, "in_two_passes",
                cat("is called a second time in an update of ", lanes_of_all(), " lanes"),
                "embed what both losses compare side by side, and add the losses up in one call");
  const torch::Tensor own = parts.empty() ? torch::Tensor() : torch::cat(parts);
  if (!step_.several()) return {own};
  parts.clear();
  step_.enter(Activity::kCommunication);
  try {
    GatheredRows rows = gather_rows(*step_.options_.ranks, own, step_.options_.device);
    step_.enter(Activity::kForward);
    return {std::move(rows.all), rows.first};
  } catch (...) {
    failed_ = std::current_exception();
    throw;
  }
}

void UpdateStep::LanePasses::refuse_apart() const {
  if (!together_) return;
  throw Error(
      ExitCode::kBadRecipe, "execution.lanes",
      cat("the task compares samples (splittable: false) and goes backward by itself, over a part of an "
          "update of ",
          lanes_of_all(), " lanes"),
      "compute the loss by in_two_passes, which sees all lanes and ranks; or use one rank, and leave "
      "execution.lanes at auto");
}

// Those of an update are scaled: what is added by another way counts too much or too little.
void UpdateStep::LanePasses::check_gradients() const {
  const std::string changed = gradients_.first_changed();
  if (changed.empty()) return;
  throw Error(ExitCode::kBrokenContract, "Task::passes",
              cat("changes the gradient of ", changed,
                  " by itself: it calls backward() or zero_grad(), which know nothing of the update's scale"),
              "go backward by Passes::backward; a gradient to compute with is that of torch::autograd::grad, "
              "which leaves those of the update alone, and Passes::backward(parameter, gradient) adds one");
}

void UpdateStep::LanePasses::backward(const torch::Tensor& sum, bool keep_graph) {
  refuse_apart();
  pass(sum, torch::ones_like(sum), keep_graph);
}

void UpdateStep::LanePasses::backward(const torch::Tensor& outputs, const torch::Tensor& gradient) {
  refuse_apart();
  pass(outputs, gradient, /*keep_graph=*/false);
}

void UpdateStep::LanePasses::backward_of_loss(const torch::Tensor& sum) {
  if (counts_the_loss()) pass(sum, torch::ones_like(sum), /*keep_graph=*/false);
}

void UpdateStep::LanePasses::backward_of(size_t i, const torch::Tensor& outputs,
                                         const torch::Tensor& gradient) {
  end_lanes_before(places_.at(i).lane);
  pass(outputs, gradient, /*keep_graph=*/false);
}

void UpdateStep::LanePasses::pass(const torch::Tensor& outputs, const torch::Tensor& gradient,
                                  bool keep_graph) {
  check_gradients();
  went_backward_ = true;
  const PhaseScope phase(MemoryPhase::kBackward);
  const c10::impl::ExcludeDispatchKeyGuard without_autocast(c10::autocast_dispatch_keyset);
  const torch::Tensor scale = (step_.scaler_.scale() * step_.options_.loss_factor).to(outputs.device());
  go_backward({"Task::passes", step_.own_code_}, outputs, (gradient * scale).to(outputs.scalar_type()),
              step_.optimizer_.parameters(), keep_graph);
  gradients_.note();
  if (casts_) casts_->look();
}

void UpdateStep::make_passes() {
  enter(Activity::kForward);
  LanePasses passes(*this);
  std::optional<LossTerms> terms;
  {
    const PhaseScope phase(MemoryPhase::kForward);
    const AutocastScope autocast(options_.device.type(), options_.precision);
    const ChangingBuffers::Watch watch(buffers_, always_watches());
    terms = passes.make();
  }
  buffers_.rethrow_failure();
  if (terms) add_terms(*terms);
  passes.end_lanes();
  waiting_.clear();
}

}  // namespace autotrain
