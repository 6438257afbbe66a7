#include "loop/training_loop.h"

#include <algorithm>
#include <cmath>
#include <thread>

#include "autotrain/log.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "base/units.h"
#include "device/failure.h"
#include "device/generators.h"
#include "loop/adapted_batch.h"
#include "model/losses.h"
#include "plan/scopes.h"
#include "report/noise_words.h"
#include "setup/users_code.h"
#include "state/resume.h"
#include "state/snapshot.h"

namespace autotrain {

TrainingLoop::TrainingLoop(Session& session, const Callbacks& callbacks, bool saved)
    : session_(session),
      callbacks_(callbacks),
      recipe_(session.recipe),
      bench_(session.bench),
      position_(session.state.position),
      totals_(session.state.totals),
      stages_(session.stages),
      horizon_(horizon_of(recipe_, bench_.stream.size(), stages_)),
      schedule_(recipe_.schedule, horizon_.updates, stages_.first()),
      plateau_(plateau_of(recipe_)),
      agenda_(recipe_, session.progress()),
      times_(bench_.timeline, session.state, trace_of(session)),
      saver_(session, saved),
      windows_(session, saver_, times_),
      evaluations_(session, saver_) {
  leave_what_a_resume_replaced();
  bench_.step.set_loss_factor(session.plan.loss_factor);
  if (session.plan.cuda_graphs && bench_.step.can_record()) {
    if (auto recorder = bench_.device->make_recorder()) bench_.step.record_with(std::move(recorder));
  }
  set_training(bench_.task->module());
  // The program may have given the model other weights since the averages were made.
  if (!saved) bench_.average.restart();
}

// The position may be of a checkpoint that is older than the resume that changed the recipe.
void TrainingLoop::leave_what_a_resume_replaced() {
  if (!plateau_) position_.plateau = {};
  settle_best(recipe_, position_);
}

StopReason TrainingLoop::run() {
  const LostDeviceScope lost([this, thread = std::this_thread::get_id()](const DeviceLost& error) {
    return leave_without_device(error, std::this_thread::get_id() == thread);
  });
  try {
    naming_device_errors([&] { run_to_the_end(); });
  } catch (const DeviceLost& error) {
    throw leave_lost_device(error);
  } catch (const Error& error) {
    bench_.ranks->share_end(error);  // at once: saving takes its time
    throw with_rescue(error);
  } catch (const std::exception& error) {
    bench_.ranks->share_end(Error(ExitCode::kInternal, "", first_line(error)));
    rescue();
    throw;
  } catch (...) {
    bench_.ranks->share_end(Error(ExitCode::kBrokenContract, "", words_of_odd_exception()));
    rescue();
    throw;
  }
  return stopped_by_;
}

void TrainingLoop::run_to_the_end() {
  windows_.restart();
  compare_loss_ahead();
  if (position_.evaluation_owed) evaluate();
  stop_at_limits();
  tell_nothing_left();
  while (!stopping()) {
    if (roll_back_for_) roll_back();
    train_window();
    if (!stopping()) do_what_is_due();
  }
  read_queued_update();
  if (roll_back_for_) roll_back();  // stopped by a signal meanwhile
  const bool to_its_end = stopped_by_ != StopReason::kSignal;
  if (to_its_end && position_.evaluated_update != position_.updates) {
    const bool due = position_.evaluation_owed || agenda_.evaluation_near(session_.progress());
    position_.evaluation_extra = !due;
    evaluate();
  }
  tell_never_defined();
  session_.sample_memory();
  if (session_.folder != nullptr) position_.loss_ahead = loss_ahead();
  saver_.checkpoint_if_changed();
  saver_.wait();
  times_.finish();
  tell_last_update();  // by which evaluations of the program's own go
}

// Resumed at its end. Who wants more of it has to move that.
void TrainingLoop::tell_nothing_left() const {
  const bool by_recipe =
      stopping() && stopped_by_ != StopReason::kSignal && stopped_by_ != StopReason::kCallback;
  if (!by_recipe || position_.updates == 0) return;
  log::warn("trainer",
            cat("no update is left to make: the run came to its end by stop.", to_string(stopped_by_),
                " at update ", position_.updates, ". Try: a later stop, with --allow-change, to go on"));
}

// A task that declares no state may have some: nobody sees its members.
bool TrainingLoop::may_keep_to_itself() const {
  return !bench_.data.from_recipe && !bench_.ranks->several() && bench_.task->state().empty();
}

// Nothing where there is no window to come, or what is wrong with it is for training to tell.
std::optional<double> TrainingLoop::loss_ahead() {
  const int64_t samples = horizon_.next_window(session_.learned(), effective());
  if (samples == 0 || !may_keep_to_itself()) return std::nullopt;
  told_last_update_ = false;
  keep_modes();
  try {
    UpdateInfo info = info_of(position_.updates + 1, position_.cursor);
    info.trial = true;
    const double loss = windows_.first_loss(samples, info);
    return std::isfinite(loss) ? std::optional(loss) : std::nullopt;
  } catch (const std::exception& error) {
    log::debug("trainer", cat("the loss ahead is not known: ", first_line(error)));
    windows_.restart();
    return std::nullopt;
  }
}

// With the weights, samples and random numbers that the session before had, to the bit.
void TrainingLoop::compare_loss_ahead() {
  const std::optional<double> before = std::exchange(position_.loss_ahead, std::nullopt);
  if (!before) return;
  const std::optional<double> now = loss_ahead();
  if (!now || *now == *before) return;
  log::warn(
      "trainer",
      cat("the continuation is not exact: the loss of the next micro-batch was ", brief(*before),
          " when the run ended, and is ", brief(*now),
          " with the same weights, samples and random numbers. The task keeps something that no checkpoint "
          "has (a counter, a queue, a recurrent state): give it in Task::state"));
}

// ------------------------------------------------------------------ updates

void TrainingLoop::train_window() {
  note_stage();
  const int64_t samples = horizon_.next_window(session_.learned(), effective());
  const auto decide = [this] { return decide_update(); };
  keep_modes();
  bench_.step.set_info(info_of(position_.updates + (queued_.figures.valid() ? 2 : 1), position_.cursor));
  const WindowRunner::End end = windows_.run(samples, decide, queued_);
  told_last_update_ = end == WindowRunner::End::kQueued;
  if (end == WindowRunner::End::kStopped) stop(windows_.stopped_by());
  if (end == WindowRunner::End::kDropped && !stopping() && !roll_back_for_) windows_.restart();
  if (end != WindowRunner::End::kQueued) return;
  if (somebody_acts()) return read_queued_update();
  // Whether this one was applied decides whether the next window is cut otherwise, or there is none.
  const int64_t learned = session_.learned() + effective();
  const int64_t next = effective_at(learned);
  if (next != effective() || horizon_.next_window(learned, next) != samples) read_queued_update();
}

// A CPU has made the update already: there is nothing to wait for.
bool TrainingLoop::somebody_acts() const {
  return bench_.device->torch_device().is_cpu() || callbacks_.follow_updates() ||
         !bench_.task->idle_after_step();
}

// The window after an update is begun as that of the next number, before it is known that the one before was
// applied.
bool TrainingLoop::goes_by_number() const {
  return bench_.optimizer->takes_turns() || !bench_.task->idle_begin_update();
}

UpdateInfo TrainingLoop::info_of(int64_t update, int64_t cursor) const {
  return {.update = update,
          .samples = cursor,
          .epoch = static_cast<double>(cursor) / static_cast<double>(bench_.stream.size())};
}

// Nobody acts between the windows of a recipe's own run.
void TrainingLoop::keep_modes() {
  if (!bench_.data.from_recipe) modes_.keep(bench_.task->module());
}

// Evaluations go by what `begin_update` sets, such as a weight that rises. A session that has made no update
// yet has not called it, and one that looked ahead, or dropped a window, last called it for another one.
void TrainingLoop::tell_last_update() {
  if (told_last_update_ || position_.updates == 0 || bench_.data.from_recipe) return;
  const int64_t began = position_.update_began;
  const int64_t likely = std::max<int64_t>(0, position_.cursor - effective());
  UpdateInfo info = info_of(position_.updates, began >= 0 ? began : likely);
  info.trial = true;
  windows_.tell(info);
  told_last_update_ = true;
}

// What it changes cannot be taken back.
void TrainingLoop::after_step() {
  torn_ = true;
  const StepOptions& options = bench_.step.options();
  seed_for_place(options.device, options.seed, PlaceToAct::kAfterStep, queued_.first);
  bench_.task->after_step(info_of(position_.updates, queued_.first));
  torn_ = false;
}

// Where no rank waits for the update but for a callback of its own, ranks come here at different times.
void TrainingLoop::look_at_states() {
  const bool all_at_once = bench_.device->torch_device().is_cpu() || !bench_.task->idle_after_step();
  if (all_at_once) unlike_state_.look(*bench_.task, *bench_.ranks);
}

int64_t TrainingLoop::effective() const {
  return effective_at(session_.learned());
}

// One that adapts stays as it is until an evaluation says otherwise.
int64_t TrainingLoop::effective_at(int64_t learned) const {
  if (!recipe_.batch.adapts()) return stages_.at(learned);
  const int64_t present = position_.effective > 0 ? position_.effective : stages_.first();
  return std::clamp(present, stages_.least(), stages_.largest());
}

// Stages begin between updates, and in the run's state at once, so that a resume does not tell it again.
void TrainingLoop::note_stage() {
  const int64_t before = std::exchange(position_.effective, effective());
  if (before > 0 && before != position_.effective)
    session_.note(EventKind::kBatch, cat("effective batch ", before, " → ", position_.effective,
                                         " from sample ", session_.learned(), " on"));
}

// The update before decides whether there is another one, and with which learning rate.
std::optional<WindowRunner::Application> TrainingLoop::decide_update() {
  const bool counted_on = queued_.figures.valid();
  const int64_t before = position_.updates;
  read_queued_update();
  if (stopping() || roll_back_for_) return std::nullopt;
  if (counted_on && position_.updates == before && goes_by_number()) return std::nullopt;  // begun anew
  const bool may_be_the_last = recipe_.divergence.policy == DivergencePolicy::kStop ||
                               position_.consecutive_skips + 1 >= recipe_.stop.max_skipped;
  const auto in_updates = [&](int64_t count) {
    return static_cast<double>(count) / static_cast<double>(stages_.first());
  };
  const double lr = scaled_rate(recipe_, stages_, effective()) * totals_.lr_factor *
                    schedule_.factor(in_updates(session_.learned()), in_updates(effective())) *
                    position_.plateau.factor;
  return WindowRunner::Application{.lr = lr, .name_non_finite = may_be_the_last};
}

// Does nothing when there is none.
void TrainingLoop::read_queued_update() {
  if (!queued_.figures.valid()) return;
  bench_.timeline.enter(Activity::kOther);
  const UpdateOutcome outcome = queued_.figures.read();
  session_.sample_memory_sometimes();
  note_bad_samples();
  if (outcome.applied) {
    ++position_.updates;
    position_.learned += queued_.samples;
    position_.consecutive_skips = position_.uncounted = 0;
    position_.update_began = queued_.first;
    after_step();
  } else {
    told_last_update_ = false;
    ++totals_.skipped;
    outcome.weight == 0 ? position_.uncounted += queued_.samples : ++position_.consecutive_skips;
  }
  bench_.average.catch_up();
  const UpdateTimes::Spent spent = times_.count(queued_.stretch);
  if (outcome.applied) {
    record_applied(outcome, spent);
  } else {
    outcome.weight == 0 ? record_uncounted() : record_skipped(outcome);
  }
  totals_.seconds = session_.seconds();
  stop_at_limits();
  if (outcome.applied) look_at_states();  // the update is told before a rank may turn out to be lost
}

void TrainingLoop::record_applied(const UpdateOutcome& outcome, const UpdateTimes::Spent& spent) {
  const double waited = spent.by_activity.at("data_wait");
  session_.device_seconds = waited + spent.by_activity.at("copy") + spent.by_activity.at("forward") +
                            spent.by_activity.at("backward");
  windows_.tune_loader(queued_.samples, spent.seconds, waited);
  if (bench_.data.validation == nullptr) position_.last_figures = {{"train_loss", outcome.loss}};
  const UpdateRecord record{
      .update = position_.updates,
      .epoch = session_.epoch(),
      .samples = position_.cursor,
      .effective_batch = queued_.samples,
      .loss = outcome.loss,
      .loss_parts = outcome.loss_parts,
      .lr = queued_.lr,
      .grad_norm = outcome.grad_norm,
      .scale = outcome.scale,
      .samples_per_second = static_cast<double>(queued_.samples) / spent.seconds,
      .peak_bytes = totals_.peak_bytes,
      .data_wait_fraction = std::min(1.0, waited / spent.seconds),
      .training_seconds = totals_.training_seconds,
      .activity_seconds = spent.by_activity,
      .ranks = bench_.ranks->several() ? std::optional(queued_.ranks) : std::nullopt,
      .noise = take_noise(outcome.norms, queued_.noise_strides.plain, position_.noise),
      .preconditioned_noise = take_noise(outcome.preconditioned_norms, queued_.noise_strides.preconditioned,
                                         position_.preconditioned_noise),
  };
  session_.followers.tell(
      &RunObserver::on_update, record,
      horizon_.total_updates(position_.updates, session_.learned(),
                             recipe_.batch.adapts() ? BatchStages(effective()) : stages_));
  stop_if_asked();
}

// Nothing where no norms were taken, or they have no parts to compare. The window stands for the whole
// stride.
std::optional<GradientNoise> TrainingLoop::take_noise(const WindowNorms& norms, int64_t stride,
                                                      NoiseBlocks& blocks) {
  const std::optional<GradientMoments> moments = moments_of(norms, queued_.samples);
  if (!moments) return std::nullopt;
  blocks.add(*moments, stride);
  return GradientNoise{.trace = moments->trace, .square = moments->square, .scale = blocks.scale()};
}

// Nothing to learn from, which no other learning rate would change: it is no sign of divergence.
void TrainingLoop::record_uncounted() {
  const std::string why = bench_.data.from_recipe ? what_does_not_count(recipe_.loss)
                                                  : std::string("the task gives them no weight");
  session_.note(EventKind::kSkipped, cat("window ", position_.windows, ": none of its ", queued_.samples,
                                         " targets counts: ", why));
  // A run's first samples are an epoch; of later ones, twice as many hold one wherever they begin.
  const int64_t epochs = position_.updates == 0 ? 1 : 2;
  if (position_.uncounted < epochs * bench_.stream.size()) return;
  throw Error(ExitCode::kBadData, "data.train",
              cat("none of the targets of the last ", position_.uncounted, " samples counts, ",
                  epochs == 1 ? "as many as there are: " : "an epoch and more: ", why),
              "give targets that count, or change loss.ignore_index or loss.class_weights");
}

// What the loss and the norm do not say: of the data, or of buffers, which are as they were again.
std::string TrainingLoop::why_skipped(const UpdateOutcome& outcome) {
  if (!std::isfinite(outcome.loss)) {
    const std::string bad = bad_values_.find(bench_, queued_);
    return bad.empty() ? "" : "; " + bad;
  }
  if (!std::isfinite(outcome.grad_norm)) return "";
  return cat("; the forward passes left the buffer ",
             queued_.first_buffer.empty() ? "(running statistics, say)" : queued_.first_buffer,
             " not finite");
}

void TrainingLoop::record_skipped(const UpdateOutcome& outcome) {
  session_.note(EventKind::kSkipped, cat("window ", position_.windows, ": loss ", outcome.loss,
                                         ", gradient norm ", outcome.grad_norm, ", scale ", outcome.scale,
                                         ", weight ", outcome.weight, why_skipped(outcome)));
  switch (after_skip(outcome, position_.consecutive_skips, recipe_, session_.plan.precision)) {
    case AfterSkip::kGoOn: return;
    case AfterSkip::kRollBack: roll_back_for_ = outcome; return;
    case AfterSkip::kEnd: throw diverged(session_, queued_, outcome);
  }
}

void TrainingLoop::note_bad_samples() {
  for (const SkippingDataset* dataset : bench_.data.skipping) {
    for (const auto& bad : dataset->take_found()) {
      session_.note(EventKind::kBadSample, cat(bad.index, ": ", bad.why));
    }
  }
}

// ------------------------------------------------------------------ between updates

void TrainingLoop::do_what_is_due() {
  saver_.notice_failure();
  // The figures are read only when something may be due: whether the update counts is in them.
  Progress ahead = session_.progress();
  if (queued_.figures.valid()) ahead.updates = session_.updates_of(session_.learned() + effective());
  if (!agenda_.anything_near(ahead) && !session_.checkpoint_asked()) return;
  // Owed from here on, so that whatever happens before it is made, a resume makes it.
  position_.evaluation_owed |= agenda_.evaluation_near(ahead) && bench_.data.validation != nullptr;
  read_queued_update();
  if (roll_back_for_) return;
  auto [evaluation_due, checkpoint_due] = agenda_.take(session_.progress());
  position_.evaluation_owed &= evaluation_due;
  if (session_.take_checkpoint()) {
    log::info("trainer", cat("a signal asked for a checkpoint: update ", position_.updates));
    checkpoint_due = true;
  }
  if (evaluation_due && !stopping()) checkpoint_due |= evaluate();
  if (checkpoint_due && !stopping()) checkpoint(Saver::Training::kGoesOn);
}

// True when this evaluation is the best so far. It is owed until every follower knows of it.
bool TrainingLoop::evaluate() {
  if (bench_.data.validation == nullptr) return false;
  tell_last_update();
  bench_.timeline.enter(Activity::kEvaluation);
  bench_.ranks->enter("evaluation");
  windows_.expect_delay();
  const std::optional<EvaluationRecord> found = evaluations_.run();
  bench_.timeline.enter(Activity::kOther);
  session_.sample_memory();
  times_.leave_out();
  totals_.seconds = session_.seconds();
  saver_.mark_changed();
  position_.evaluation_owed = true;
  if (!found) {
    stop(StopReason::kSignal);
    return false;
  }
  session_.followers.tell(&RunObserver::on_evaluation, *found);
  tell_undefined(*found);
  const bool improved = take_into_account(*found, recipe_, position_);
  if (!position_.evaluation_extra) {
    follow(*found);
    adapt_batch();
  }
  position_.evaluation_owed = position_.evaluation_extra = false;
  stop_if_asked();
  stop_at_limits();
  return improved;
}

// Once a figure, of those that the run goes by.
void TrainingLoop::tell_undefined(const EvaluationRecord& evaluation) {
  std::set<std::string> used = {"loss", recipe_.evaluation.monitor};
  if (plateau_) used.insert(plateau_->figure);
  for (const std::string& figure : used) {
    const double value = figure_of(evaluation, figure);
    if (std::isfinite(value) || !told_undefined_.insert(figure).second) continue;
    log::warn("trainer", cat("evaluation at update ", evaluation.update, ": ", figure, " is ", brief(value),
                             ": ", why_undefined(evaluation, figure)));
  }
}

void TrainingLoop::tell_never_defined() const {
  const std::string& monitor = recipe_.evaluation.monitor;
  const auto last = position_.last_figures.find(monitor);
  if (bench_.data.validation == nullptr || position_.best_update >= 0 || last == position_.last_figures.end())
    return;
  log::warn("trainer", cat(monitor,
                           ", which evaluation.monitor names, was never defined: no update is the best, "
                           "and no patience was counted"));
}

// Only evaluations that are due count: a run that was stopped and resumed has no others in common with one
// that was not. Those during warm-up say nothing about a rate that is still rising.
void TrainingLoop::follow(const EvaluationRecord& evaluation) {
  if (!plateau_ || session_.learned() < counted_product(schedule_.warmup_updates(), stages_.first())) return;
  if (!counts(evaluation, plateau_->figure, position_.plateau.best.has_value())) return;
  const PlateauState before = position_.plateau;
  const bool lower = evaluation.kinds.at(plateau_->figure).better == Better::kLower;
  const double value = evaluation.figures.at(plateau_->figure);
  plateau_->follow(value, lower, position_.plateau);
  if (position_.plateau.factor == before.factor) return;
  const std::string falls = cat("; learning rate × ", brief(position_.plateau.factor));
  const bool better = before.best && (lower ? value < *before.best : value > *before.best);
  constexpr double kLarge = 0.01;  // of a threshold beside the figure
  if (better && plateau_->threshold > kLarge * std::abs(*before.best)) {
    log::warn("optim", cat("update ", position_.updates, ": ", plateau_->figure,
                           " is better than the best that counted, ", brief(*before.best),
                           ", but by no more than schedule.threshold, ", brief(plateau_->threshold), falls,
                           ". Try: a threshold that is small beside the figure, or 0"));
  } else {
    log::info("optim",
              cat("update ", position_.updates, ": ", plateau_->figure, " no longer improves", falls));
  }
}

// Of the estimates that all ranks have in common. The last update of a run decides nothing any more.
void TrainingLoop::adapt_batch() {
  if (!recipe_.batch.adapts() || horizon_.next_window(session_.learned(), effective()) == 0) return;
  const std::optional<NoiseScale> noise = position_.noise.scale();
  if (!noise) return;
  const BatchBounds bounds{.least = stages_.least(),
                           .most = stages_.largest(),
                           .whole = session_.plan.micro_batch * session_.plan.lanes,
                           .lanes = session_.plan.lanes};
  const int64_t before = effective();
  position_.effective = adapted_batch(before, *noise, bounds);
  if (position_.effective == before) return;
  session_.note(EventKind::kBatch, cat("effective batch ", before, " → ", position_.effective,
                                       ": the gradient noise scale in samples is ", in_brief(*noise)));
}

void TrainingLoop::checkpoint(Saver::Training training) {
  windows_.expect_delay();
  bench_.ranks->enter("checkpoint");
  saver_.checkpoint(training);
  times_.leave_out();
}

// Number and state of the newest one up to this update; null when there is none.
Ranks::Note TrainingLoop::newest_checkpoint() const {
  if (session_.folder == nullptr) return nullptr;
  const auto newest = session_.folder->checkpoints().read_newest_state(position_.updates);
  if (!newest) return nullptr;
  SavedRun saved = saved_run(newest->second);
  follow_data(saved, recipe_);
  return Ranks::Note::array({newest->first, state_to_json(saved)});
}

// Back to the last checkpoint from before the weights that failed, and on from there with a smaller learning
// rate: a checkpoint of the same update, made before anyone knew or while windows were skipped, has the same
// weights. What is counted over the whole run stays counted; the rows that were written stay written.
void TrainingLoop::roll_back() {
  const UpdateOutcome outcome = *std::exchange(roll_back_for_, std::nullopt);
  bench_.step.abandon();
  if (totals_.rollbacks >= recipe_.divergence.max_rollbacks) throw diverged(session_, queued_, outcome);
  saver_.wait();
  // The first rank reads, whoever else there is gets it from there.
  const Ranks::Note newest = bench_.ranks->from_first(newest_checkpoint());
  if (newest.is_null()) {
    throw diverged(session_, queued_, outcome,
                   cat(", and there is no checkpoint from before update ", position_.updates));
  }
  const int64_t failed_update = position_.updates;
  Position saved = saved_run(newest.at(1)).state.position;
  torn_ = true;  // until all of it is read
  if (session_.folder != nullptr)
    load_tensors(session_.folder->checkpoints(), newest.at(0).get<int64_t>(), bench_);
  share_tensors(bench_, /*loaded=*/true);
  const int64_t best = std::exchange(position_, std::move(saved)).best_update;
  torn_ = told_last_update_ = false;
  leave_what_a_resume_replaced();
  position_.consecutive_skips = 0;
  ++totals_.rollbacks;
  totals_.lr_factor *= recipe_.divergence.lr_factor;
  agenda_ = Agenda(recipe_, session_.progress());
  session_.note(EventKind::kRollback, cat("from update ", failed_update, " to ", position_.updates,
                                          ", whose rows that follow here replace the earlier ones",
                                          position_.best_update == best || position_.best_update < 0
                                              ? ""
                                              : cat("; the best is update ", position_.best_update, " again"),
                                          "; learning rate × ", brief(totals_.lr_factor)));
  windows_.restart();
  checkpoint(Saver::Training::kGoesOn);  // in the place of the one it came from: a resume goes on from here
}

// ------------------------------------------------------------------ the end

// The first reason stands, but for a signal: what was still to do is left for the next session.
void TrainingLoop::stop(StopReason reason) {
  if (!stopping() || reason == StopReason::kSignal) stopped_by_ = reason;
}

// With several ranks, one that was asked tells the others, and all stop at the next window.
void TrainingLoop::stop_if_asked() {
  if (!callbacks_.asked_to_stop()) return;
  bench_.ranks->several() ? void(session_.wish = StopReason::kCallback) : stop(StopReason::kCallback);
}

void TrainingLoop::stop_at_limits() {
  const StopRecipe& limits = recipe_.stop;
  if (horizon_.next_window(session_.learned(), effective()) == 0) stop(horizon_.stopped_by);
  if (limits.minutes && totals_.seconds >= *limits.minutes * 60) stop(StopReason::kMinutes);
  if (limits.patience && position_.evaluations_since_best >= *limits.patience) stop(StopReason::kPatience);
}

// Nothing of what the device holds can be saved. A checkpoint that is in the host's memory already is written
// to its end, unless the thread that met the loss is the one that writes it.
DeviceLost TrainingLoop::leave_without_device(const DeviceLost& error, bool may_wait) {
  bench_.ranks->share_end(error);
  try {
    if (may_wait) saver_.finish_writing();
  } catch (const std::exception& problem) {
    log::error("trainer", first_line(problem));
  }
  return error;
}

Error TrainingLoop::with_rescue(const Error& error) {
  if (error.code() == ExitCode::kDiverged) return error;  // the checkpoints before are better
  const std::string saved = rescue();
  if (saved.empty()) {
    if (error.code() != ExitCode::kInterrupted || !saver_.could_not_write()) return error;
    return Error(ExitCode::kInputOutput, error.where(), error.problem(), error.hint());
  }
  return Error(error.code(), error.where(), cat(error.problem(), "\n  ", saved), error.hint());
}

// The first rank saves, or another one if that is lost.
bool TrainingLoop::may_save() const {
  return session_.folder != nullptr || (session_.deputy != nullptr && bench_.ranks->first_is_lost());
}

// Saves what the run had learned up to its last whole update. @return where it stands; "" when it was not
// possible.
std::string TrainingLoop::rescue() {
  if (!may_save()) return "";
  if (torn_ || !bench_.step.replayable()) {
    log::warn(
        "trainer",
        "the update under way was applied in part: nothing newer than the last checkpoint can be saved");
    return "";
  }
  try {
    bench_.step.abandon();
    windows_.close();
    read_queued_update();
  } catch (const Error& error) {
    if (error.code() == ExitCode::kDiverged) return "";  // the checkpoints before are better
    log::error("trainer", first_line(error));
  } catch (const std::exception& error) {
    log::error("trainer", first_line(error));
  }
  if (queued_.figures.valid()) return "";  // whether the last update counts is not known
  // A resume begins with the evaluation that this update was to bring.
  const bool evaluated = position_.evaluated_update == position_.updates || bench_.data.validation == nullptr;
  position_.evaluation_owed |= !evaluated && agenda_.evaluation_near(session_.progress());
  return saver_.rescue();
}

}  // namespace autotrain
