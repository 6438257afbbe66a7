#include "step/update_step.h"

#include <ATen/ops/_foreach_norm.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "autotrain/error.h"
#include "base/text.h"
#include "device/generators.h"
#include "device/memory_phase.h"
#include "model/moved_tensors.h"
#include "model/recompute_scope.h"
#include "step/autocast.h"
#include "step/backward.h"
#include "step/fresh_casts.h"
#include "step/gathered_rows.h"
#include "step/gradient_watch.h"
#include "step/lane_passes.h"
#include "step/loss_terms.h"
#include "step/own_code.h"
#include "step/precision.h"
#include "step/update_scalars.h"

namespace autotrain {
namespace {

void check_terms(const LossTerms& terms) {
  const bool scalar =
      terms.sum.defined() && terms.sum.numel() == 1 && terms.weight.defined() && terms.weight.numel() == 1;
  if (scalar && terms.sum.requires_grad()) return;
  throw Error(
      ExitCode::kBrokenContract, "Task::loss",
      !scalar ? "must return a scalar sum and a scalar weight" : "the sum does not depend on any parameter",
      "return {losses.sum(), number of losses} of a forward pass through module()");
}

// A loss that goes backward by itself adds to the gradients of other micro-batches, or drops them.
void check_left_alone(const GradientWatch& gradients) {
  const std::string changed = gradients.first_changed();
  if (changed.empty()) return;
  throw Error(ExitCode::kBrokenContract, "Task::loss",
              cat("changes the gradient of ", changed,
                  ": it calls backward() or zero_grad(), and gradients add up over the micro-batches of an "
                  "update"),
              "return the loss, from which the trainer goes backward; what differentiates within it takes "
              "torch::autograd::grad, which leaves gradients alone");
}

// Those of an update are scaled, and sums. One that is dropped is a parameter that stays as it is.
void check_asked_for(const GradientWatch& gradients, bool shown) {
  const std::string set = gradients.first_set(/*in_place=*/!shown);
  if (set.empty()) return;
  throw Error(ExitCode::kBrokenContract, "Task::before_step",
              cat("changes the gradient of ", set,
                  shown ? ", and sets another tensor in its place"
                        : " without asking for it, while it is scaled, and a sum over the samples"),
              "change the tensors of Gradients::all() in place: they are mean gradients");
}

// A task may keep its weight, a plain number, where it likes. From the host it comes as the argument of a
// kernel, so that nobody waits.
torch::Tensor as_scalar64(const torch::Tensor& value, const torch::Device& device) {
  const torch::Tensor wide = value.detach().to(torch::kFloat64).reshape({});
  if (wide.device() == device) return wide;
  if (wide.is_cpu()) return at::full({}, wide.item<double>(), wide.options().device(device));
  return wide.to(device);
}

// What a program may switch between two updates: 1 for each parameter that learns, and for each part of the
// module that is in training mode.
std::string switches_of(const torch::nn::Module& module, const std::vector<NamedTensor>& parameters) {
  std::string digits(1, module.is_training() ? '1' : '0');
  for (const NamedTensor& parameter : parameters) digits += parameter.tensor.requires_grad() ? '1' : '0';
  for (const auto& part : module.modules(/*include_self=*/false)) digits += part->is_training() ? '1' : '0';
  return digits;
}

// True until the scope ends.
class Flag {
 public:
  explicit Flag(bool& flag) : flag_(flag) { flag_ = true; }
  ~Flag() { flag_ = false; }
  Flag(const Flag&) = delete;
  Flag& operator=(const Flag&) = delete;

 private:
  bool& flag_;
};

}  // namespace

PendingUpdate::PendingUpdate(const torch::Tensor& figures, std::vector<std::string> part_names)
    : host_(figures.to(torch::kCPU, /*non_blocking=*/true)), part_names_(std::move(part_names)) {
  if (figures.is_cpu()) return;
  const c10::impl::VirtualGuardImpl device(figures.device().type());
  copied_.emplace(figures.device().type());
  copied_->record(device.getStream(figures.device()));
}

UpdateOutcome PendingUpdate::read() {
  check_invariant(valid(), "a pending update is read once");
  if (copied_) copied_->synchronize();
  const auto* const figures = host_.const_data_ptr<double>();
  if (figures[0] == 0 && !written_.empty()) {
    throw Error(ExitCode::kBrokenContract, "Task::loss",
                cat("writes to ", written_,
                    " for the first time in an update that is skipped, and what it held was not kept"),
                "write to it in Task::begin_update or Task::after_step, or from the first update on");
  }
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
  const int64_t before_parts = host_.numel() - (part_names_.empty() ? 0 : kMostLossParts);
  for (size_t i = 0; i < part_names_.size(); ++i)
    outcome.loss_parts[part_names_[i]] = figures[static_cast<size_t>(before_parts) + i];
  if (before_parts == 11) {
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
      makes_passes_(task.makes_passes()),
      own_code_(runs_own_code(task.module())),
      buffers_(task),
      totals_(options.lanes, {7 + kMostLossParts},
              torch::TensorOptions().dtype(torch::kFloat64).device(options.device)) {
  if (makes_passes_) options_.statistics = options_.preconditioned_norms = false;
  if (options_.static_buffers) make_rate();
  close_window();
}

// CUDA's fused kernels take no other type.
void UpdateStep::make_rate() {
  const auto type = options_.device.is_cpu() ? torch::kFloat64 : torch::kFloat32;
  if (!lr_.defined()) lr_ = torch::zeros({}, torch::TensorOptions().dtype(type).device(options_.device));
}

void UpdateStep::enter(Activity activity) const {
  if (options_.timeline != nullptr) options_.timeline->enter(activity);
}

Batch UpdateStep::at_input_scale(const Batch& batch, int64_t window) const {
  const InputScale& scale = options_.input_scale;
  if (!scale.active()) return batch;
  const int64_t shorter_side = std::min(batch.inputs.size(2), batch.inputs.size(3));
  return shrunk(batch, largest_inputs_ ? 0 : scale.steps(shorter_side, window));
}

void UpdateStep::accumulate(const Batch& given, int64_t window, int64_t offset) {
  if (!window_open_) open_window();
  const Batch batch = at_input_scale(given, window);
  if (makes_passes_) return waiting_.push_back({batch, window, offset});
  enter(Activity::kForward);
  const auto seed = [&] { seed_for_micro_batch(options_.device, options_.seed, window, offset); };
  const std::optional<size_t> place = keeps_batches() ? at_fixed_address(batch) : std::nullopt;
  if (place) seed();
  const Recordings::Pass* const recorded = place ? recorded_pass(*place) : nullptr;
  seed();  // again, for recording may have drawn
  if (recorded != nullptr) {
    recorded->forward->replay();
    enter(Activity::kBackward);
    recorded->backward->replay();
    gradients_->add_reached(recorded->reached);
  } else {
    const LossTerms terms = forward(place ? batches_[*place].batch : batch);
    enter(Activity::kBackward);
    backward(terms);
    if (place) batches_[*place].passed = true;
  }
  first_of_lane_ = false;
}

LossTerms UpdateStep::forward(const Batch& batch) {
  if (recording_ && options_.recomputed_blocks > 0)
    throw CannotRecord("blocks are computed again in the backward pass");
  if (recording_ && options_.mover)
    throw CannotRecord("what the backward pass needs is moved to main memory");
  LossTerms terms;
  {
    const PhaseScope phase(MemoryPhase::kForward);
    const RecomputeScope recompute(options_.recomputed_blocks);
    const OffloadScope offload(options_.mover, task_.module(), batch);
    const AutocastScope autocast(options_.device.type(), options_.precision);
    const ChangingBuffers::Watch watch(buffers_, always_watches());
    const GradientWatch gradients(optimizer_.parameters());
    terms = loss_terms(task_, batch);
    check_left_alone(gradients);
  }
  buffers_.rethrow_failure();
  check_terms(terms);
  return terms;
}

// A loss or penalty that was computed elsewhere comes to where the step goes on with it; its gradient finds
// the way back. A recording would go on reading it from memory that is something else's by then.
torch::Tensor UpdateStep::brought_here(const torch::Tensor& value) const {
  if (value.device() == loss_sum_.device()) return value;
  if (recording_) throw CannotRecord("a loss or penalty is computed on the host");
  return value.to(loss_sum_.device(), /*non_blocking=*/true);
}

void UpdateStep::backward(const LossTerms& terms) {
  const PhaseScope phase(MemoryPhase::kBackward);
  const torch::Tensor sum = brought_here(terms.sum);
  add_terms(terms);
  const torch::Tensor seed = (scaler_.scale() * options_.loss_factor).to(sum.scalar_type());
  {
    const ChangingBuffers::Watch watch(buffers_, always_watches());  // of hooks
    go_backward({"Task::loss", own_code_}, sum, seed.reshape(sum.sizes()), optimizer_.parameters());
  }
  buffers_.rethrow_failure();
  if (takes_norms()) take_first_norms(as_scalar64(terms.weight, loss_sum_.device()));
}

void UpdateStep::add_terms(const LossTerms& terms) {
  loss_sum_.add_(as_scalar64(brought_here(terms.sum), loss_sum_.device()));
  weight_sum_.add_(as_scalar64(terms.weight, loss_sum_.device()));
  if (!terms.parts.empty()) add_parts(terms.parts);
}

void UpdateStep::add_parts(const std::vector<NamedTensor>& parts) {
  const torch::NoGradGuard no_gradients;
  std::vector<torch::Tensor> sums;
  for (const NamedTensor& part : parts) {
    if (part_names_.size() < parts.size()) part_names_.push_back(part.name);
    sums.push_back(as_scalar64(brought_here(part.tensor), loss_sum_.device()));
  }
  part_sums_.narrow(0, 0, std::ssize(parts)).add_(at::stack(sums));
}

// ------------------------------------------------------------------ recordings

void UpdateStep::record_with(std::unique_ptr<WorkRecorder> recorder) {
  check_invariant(!window_open_ && can_record(), "only whole windows of one lane and one rank are recorded");
  make_rate();
  recordings_ = std::make_unique<Recordings>(std::move(recorder));
  why_not_recorded_.clear();
  passed_by_ = updated_ = false;
  batches_.clear();
}

void UpdateStep::stop_recording() {
  check_invariant(!window_open_, "a window is recorded to its end");
  if (!std::exchange(recordings_, nullptr)) return;
  passed_by_ = false;
  if (options_.static_buffers) return;
  batches_.clear();
  gradients_.reset();
}

void UpdateStep::give_up_recording(const std::string& what, const CannotRecord& reason) {
  why_not_recorded_ = cat(what, " cannot be recorded: ", reason.what());
}

// What is recorded reads and writes where weights and buffers lay then.
void UpdateStep::look_for_other_memory() {
  if (recordings_ == nullptr || !why_not_recorded_.empty() || !buffers_.moved()) return;
  give_up_recording("an update", CannotRecord("a weight or buffer was given other memory"));
}

// A recording goes on doing what was decided when it was made, and no trial has the updates of a run: whose
// turn it is, a weight that rises. What is switched in the module itself is seen.
void UpdateStep::look_for_decisions() {
  if (recordings_ == nullptr || !why_not_recorded_.empty()) return;
  if (!task_.idle_begin_update())
    give_up_recording("an update",
                      CannotRecord("the task's own begin_update may decide each time what it is"));
  std::string now = switches_of(task_.module(), optimizer_.parameters());
  if (now == switches_) return;
  switches_ = std::move(now);
  for (FixedBatch& each : batches_) each.passed = false;  // other kernels are to be loaded
}

// What recordings do, no operator tells. A recipe's models write in every pass to what they ever write to.
bool UpdateStep::always_watches() const {
  return own_code_ && !recording_ && buffers_.may_be_first_written();
}

// Null: it was not recorded, and is done without this time. Which buffers change is known after a window.
const Recordings::Pass* UpdateStep::recorded_pass(size_t batch) {
  if (!replays() || !batches_[batch].passed || !buffers_.settled()) return nullptr;
  Recordings::Pass wanted{.batch = batch,
                          .loss_factor = options_.loss_factor,
                          .norms = takes_norms(),
                          .preconditioned = takes_norms() && takes_preconditioned(),
                          .switches = switches_};
  if (const Recordings::Pass* const known = recordings_->find(wanted)) return known;
  const std::string before = gradients_->reached();
  try {
    record(wanted);
  } catch (const CannotRecord& reason) {
    give_up_recording("a forward and backward pass", reason);
  }
  gradients_->add_reached(before);
  return replays() ? &recordings_->keep(std::move(wanted)) : nullptr;
}

// What the forward pass leaves for the backward pass lies in the recorder's memory.
void UpdateStep::record(Recordings::Pass& pass) {
  const auto terms = std::make_shared<LossTerms>();
  const Flag recording(recording_);
  gradients_->forget_reached();
  pass.forward = recordings_->recorder().record(
      [this, terms, &batch = batches_[pass.batch].batch] { *terms = forward(batch); });
  pass.backward = recordings_->recorder().record([this, terms] { backward(std::exchange(*terms, {})); });
  pass.reached = gradients_->reached();
}

const Recordings::Update* UpdateStep::recorded_update(Apply apply) {
  if (!replays() || !updated_ || !buffers_.settled()) return nullptr;
  Recordings::Update wanted{.skipped = apply == Apply::kForceSkip,
                            .loss_factor = options_.loss_factor,
                            .average = average_ != nullptr ? average_->share() : 0,
                            .norms = options_.statistics,
                            .preconditioned = takes_preconditioned(),
                            .reached = gradients_->reached(),
                            .turns = turns()};
  if (const Recordings::Update* const known = recordings_->find(wanted)) return known;
  try {
    record(wanted, apply);
  } catch (const CannotRecord& reason) {
    give_up_recording("an update", reason);
    return nullptr;
  }
  return &recordings_->keep(std::move(wanted));
}

void UpdateStep::record(Recordings::Update& update, Apply apply) {
  const auto figures = std::make_shared<torch::Tensor>();
  const Flag recording(recording_);
  update.work = recordings_->recorder().record([this, apply, figures] {
    auto [prepared, of_update] = compute_update(/*lr=*/0, apply);
    apply_update(prepared);
    figures->defined() ? void(figures->copy_(of_update)) : void(*figures = of_update);
  });
  update.figures = *figures;
}

// ------------------------------------------------------------------ the window's gradient

// The L2 norm over all gradients as they are, still scaled. It is finite exactly when every gradient
// is (and their squares do not overflow float32), so one pass over memory gives norm and check.
torch::Tensor UpdateStep::scaled_norm() const {
  std::vector<torch::Tensor> gradients;
  const std::vector<NamedTensor>& parameters = optimizer_.parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    const torch::Tensor& gradient = parameters[i].tensor.grad();
    if (optimizer_.has_turn(i) && gradient.defined()) gradients.push_back(gradient);
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
  torch::Tensor penalty;
  {
    const ChangingBuffers::Watch watch(buffers_, own_code_ && !recording_);
    penalty = task_.penalty();
  }
  buffers_.rethrow_failure();
  if (!penalty.defined()) return {};
  // No trial compares it with what is launched.
  if (recording_) throw CannotRecord("it has a penalty, which is the task's own code");
  penalty = brought_here(penalty);
  torch::Tensor before;
  if (options_.statistics) {
    const torch::NoGradGuard no_gradients;
    before = scaled_norm() / divisor;
  }
  {
    const ChangingBuffers::Watch watch(buffers_, own_code_);
    go_backward({"Task::penalty", own_code_}, penalty,
                divisor.to(penalty.scalar_type()).reshape(penalty.sizes()), optimizer_.parameters());
  }
  buffers_.rethrow_failure();
  return before;
}

namespace {

// The mean gradients of a window, in the place of those that are scaled, once somebody asks for them.
class MeanGradients final : public Gradients {
 public:
  // What is to be done first, and what gradients are then divided by: a scalar.
  using Begin = std::function<torch::Tensor(std::vector<NamedTensor>& gradients)>;
  explicit MeanGradients(Begin begin) : begin_(std::move(begin)) {}

  const std::vector<NamedTensor>& all() override {
    if (shown()) return all_;
    const torch::NoGradGuard no_gradients;
    divisor_ = begin_(all_);
    for (const NamedTensor& gradient : all_) gradient.tensor.div_(divisor_);
    return all_;
  }

  bool shown() const { return divisor_.defined(); }

  // Scaled again. What the scale makes not finite stays so, and the update is skipped.
  void put_back() {
    const torch::NoGradGuard no_gradients;
    for (const NamedTensor& gradient : all_) gradient.tensor.mul_(divisor_);
  }

 private:
  const Begin begin_;
  torch::Tensor divisor_;
  std::vector<NamedTensor> all_;
};

}  // namespace

// Outside of what is recorded: it is the task's own code.
void UpdateStep::ask_task() {
  norm_before_task_ = torch::Tensor();
  MeanGradients gradients([&](std::vector<NamedTensor>& all) {
    const GradientScale scale(scaler_.scale(), options_.loss_factor, weight_sum_);
    if (options_.statistics) norm_before_task_ = scaled_norm() / scale.of_mean;
    const std::string reached = gradients_ ? gradients_->reached() : "";
    const std::vector<NamedTensor>& parameters = optimizer_.parameters();
    for (size_t i = 0; i < parameters.size(); ++i) {
      const torch::Tensor& gradient = parameters[i].tensor.grad();
      if (gradient.defined() && (reached.empty() || reached.at(i) == '1'))
        all.push_back({parameters[i].name, gradient});
    }
    return scale.of_mean;
  });
  {
    const ChangingBuffers::Watch watch(buffers_, own_code_);
    seed_for_place(options_.device, options_.seed, PlaceToAct::kBeforeStep, info_.samples);
    const GradientWatch watched(optimizer_.parameters());
    task_.before_step(info_, gradients);
    check_asked_for(watched, gradients.shown());
  }
  buffers_.rethrow_failure();
  if (gradients.shown()) gradients.put_back();
  gradients_shown_ = gradients.shown();
}

void UpdateStep::end_lane() {
  if (!window_open_) open_window();
  if (LanePasses::are_together(*this)) {
    waiting_.push_back(LanePasses::end_of_lane());
    if (std::ranges::count_if(waiting_, LanePasses::ends_lane) < options_.lanes) return;
  }
  if (!waiting_.empty()) make_passes();
  LanePasses::end_lane(*this);
}

void UpdateStep::end_lanes() {
  do end_lane();
  while (!totals_.whole());
}

std::vector<Ranks::Note> UpdateStep::meet(const Ranks::Note& mine, double patience) {
  if (!several()) return {mine};
  // The others wait for the rows of a rank that was stopped before its passes.
  if (LanePasses::are_together(*this) && !totals_.whole()) stop_in_place_of_rows(*options_.ranks, patience);
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

// What the window left in the buffers counts as its gradients do: they are learned with from here on.
void UpdateStep::look_at_buffers() {
  if (const torch::Tensor nought = buffers_.nought(); nought.defined()) buffers_nought_.add_(nought);
}

void UpdateStep::prepare(double lr, Apply apply) {
  const PhaseScope phase(MemoryPhase::kUpdate);
  if (several()) {
    look_at_buffers();
    sum_over_ranks();
  }
  enter(Activity::kUpdate);
  leave_out_of_turn();
  ask_task();
  look_for_other_memory();
  if (has_fixed_addresses()) lr_.fill_(lr);
  if (const Recordings::Update* const recorded = gradients_shown_ ? nullptr : recorded_update(apply)) {
    prepared_ = {.recorded = recorded};
    return;
  }
  auto [prepared, figures] = compute_update(lr, apply);
  prepared.figures = PendingUpdate(figures, part_names_);
  prepared_ = std::move(prepared);
}

// Gradients of parameters whose turn it is not.
void UpdateStep::leave_out_of_turn() {
  const std::vector<NamedTensor>& parameters = optimizer_.parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (optimizer_.has_turn(i)) continue;
    gradients_ ? gradients_->forget_reached(i) : parameters[i].tensor.mutable_grad().reset();
  }
}

std::vector<bool> UpdateStep::turns() const {
  std::vector<bool> turns;
  for (size_t i = 0; i < optimizer_.parameters().size(); ++i) turns.push_back(optimizer_.has_turn(i));
  return turns;
}

// A window of weight 0 says nothing of the scale.
torch::Tensor UpdateStep::for_the_scaler(const torch::Tensor& found_inf) const {
  return scales_loss(options_.precision) ? found_inf * weight_sum_.ne(0) : found_inf;
}

// @return with it the figures of the update, in the order in which PendingUpdate takes them.
std::pair<UpdateStep::Prepared, torch::Tensor> UpdateStep::compute_update(double lr, Apply apply) {
  // Gradients are those of scale × factor × Σ sums; the update wants Σ sums ÷ Σ weights.
  const GradientScale scale(scaler_.scale(), options_.loss_factor, weight_sum_);
  torch::Tensor preconditioned;
  if (takes_preconditioned()) preconditioned = preconditioned_norm_->squared() / scale.of_mean.square();
  const torch::Tensor norm_with_task = add_penalty(scale.of_mean);
  leave_out_of_turn();  // whom the penalty reached
  const torch::Tensor norm_before_penalty = norm_before_task_.defined() ? norm_before_task_ : norm_with_task;
  if (gradients_) gradients_->leave_reached();

  const torch::NoGradGuard no_gradients;
  if (!several()) look_at_buffers();
  const UpdateScalars scalars = update_scalars({.loss_sum = loss_sum_,
                                                .weight_sum = weight_sum_,
                                                .first_norms = first_norms_,
                                                .first_preconditioned = first_preconditioned_,
                                                .scaled_norm = scaled_norm(),
                                                .own_norm = norm_before_penalty,
                                                .preconditioned = preconditioned,
                                                .buffers_nought = buffers_nought_},
                                               scale, options_.clip_norm, apply == Apply::kForceSkip);
  return {Prepared{.update = {.lr = lr,
                              .lr_on_device = has_fixed_addresses() ? lr_ : torch::Tensor(),
                              .grad_scale = scalars.grad_scale,
                              .found_inf = scalars.skipped},
                   .average_step = average_ ? average_->step_for(scalars.skipped) : torch::Tensor(),
                   .found_inf = for_the_scaler(scalars.found_inf),
                   .applies = scalars.applies},
          part_names_.empty() ? scalars.figures : at::cat({scalars.figures, part_sums_ / weight_sum_})};
}

// No line allocates on the device.
void UpdateStep::apply_update(const Prepared& prepared) {
  const torch::NoGradGuard no_gradients;
  optimizer_.apply(prepared.update);
  if (shard_) {
    enter(Activity::kCommunication);
    shard_->spread_parameters();
    enter(Activity::kUpdate);
  }
  buffers_.restore_unless(prepared.applies);  // before they are averaged
  if (average_) average_->update(prepared.average_step);
  scaler_.update(prepared.found_inf);
}

PendingUpdate UpdateStep::commit() {
  const torch::NoGradGuard no_gradients;
  const PhaseScope phase(MemoryPhase::kUpdate);
  check_invariant(prepared_.has_value(), "an update is prepared before it is committed");
  buffers_.note_changed_parameters();
  std::string written = info_.trial ? "" : buffers_.first_unwatched();
  committing_ = true;
  Prepared prepared = *std::exchange(prepared_, std::nullopt);
  if (prepared.recorded != nullptr) {
    prepared.recorded->work->replay();
    prepared.figures = PendingUpdate(prepared.recorded->figures, part_names_);
  } else {
    apply_update(prepared);
    updated_ = true;
  }
  prepared.figures.cannot_put_back(std::move(written));
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
  if (!gradients_ && (has_fixed_addresses() || options_.lanes > 1 || several())) {
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
  look_for_other_memory();
  buffers_.save();
  have_buffers();
  if (gradients_) gradients_->open();
  totals_.open();
  attach_totals();
  window_open_ = true;
  {
    const ChangingBuffers::Watch watch(buffers_, own_code_);
    seed_for_place(options_.device, options_.seed, PlaceToAct::kBeginUpdate, info_.samples);
    const GradientWatch gradients(optimizer_.parameters());
    task_.begin_update(info_);
    // A loop's zero_grad() takes away where they are to be added up.
    if (gradients_ && !gradients.first_changed().empty()) gradients_->open();
    // A backward() of the program's own, here or since the update before, is none of this update's.
    if (!gradients_) drop_gradients();
  }
  buffers_.rethrow_failure();
  look_for_other_memory();
  look_for_decisions();
}

void UpdateStep::attach_totals() {
  const torch::Tensor& totals = totals_.buffers()[totals_.current()];
  loss_sum_ = totals[0];
  weight_sum_ = totals[1];
  first_norms_ = totals.slice(0, 2, 5);
  first_preconditioned_ = totals[5];
  buffers_nought_ = totals[6];
  part_sums_ = totals.slice(0, 7);
  first_of_lane_ = true;
}

// Copies it to where those of its shape lie, a place that is made for the first of them. @return its number;
// nothing: there are so many shapes that this one has no place.
std::optional<size_t> UpdateStep::at_fixed_address(const Batch& batch) {
  const auto alike = [](const torch::Tensor& a, const torch::Tensor& b) {
    return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type();
  };
  const std::vector<torch::Tensor> tensors = batch.tensors();
  for (size_t place = 0; place < batches_.size(); ++place) {
    const std::vector<torch::Tensor> there = batches_[place].batch.tensors();
    if (!std::ranges::equal(there, tensors, alike)) continue;
    for (size_t i = 0; i < there.size(); ++i) there[i].copy_(tensors[i], /*non_blocking=*/true);
    return place;
  }
  if (!options_.static_buffers && batches_.size() == Recordings::kMostShapes) return std::nullopt;
  batches_.push_back({batch.with_each([](const torch::Tensor& tensor) { return tensor.clone(); })});
  return batches_.size() - 1;
}

void UpdateStep::abandon() {
  if (window_open_) {
    buffers_.note_changed_parameters();
    buffers_.restore();
  }
  close_window();
}

void UpdateStep::close_window() {
  window_open_ = false;
  waiting_.clear();
  prepared_.reset();
  drop_gradients();
  // In place: this also runs while memory is short, and must not need any.
  totals_.open();
  attach_totals();
}

void UpdateStep::drop_gradients() {
  for (const NamedTensor& parameter : optimizer_.parameters()) parameter.tensor.mutable_grad().reset();
}

std::string UpdateStep::first_non_finite_gradient() const {
  for (const NamedTensor& parameter : optimizer_.parameters()) {
    const torch::Tensor& gradient = parameter.tensor.grad();
    if (gradient.defined() && !at::isfinite(gradient).all().item<bool>()) return parameter.name;
  }
  return "";
}

std::string UpdateStep::first_non_finite_buffer() const {
  return buffers_.first_not_finite();
}

double UpdateStep::lane_weight() const {
  return weight_sum_.item<double>();
}

EvaluationTerms evaluate_batch(Task& task, const Batch& batch, Precision precision) {
  const PhaseScope phase(MemoryPhase::kEvaluation);
  const torch::NoGradGuard no_gradients;
  const AutocastScope autocast(batch.inputs.device().type(), precision);
  std::optional<FreshCasts> casts;
  if (is_half(precision) && runs_own_code(task.module())) casts.emplace(task.module());
  return task.evaluate(batch);
}

double loss_factor_for(double weight) {
  return weight > 0 ? std::exp2(-std::round(std::log2(weight))) : 1;
}

}  // namespace autotrain
