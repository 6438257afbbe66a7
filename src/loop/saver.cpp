#include "loop/saver.h"

#include "autotrain/log.h"
#include "base/clock.h"
#include "base/command_line.h"
#include "base/files.h"
#include "base/text.h"
#include "device/failure.h"
#include "device/memory_phase.h"
#include "device/system_memory.h"
#include "plan/planner.h"
#include "recipe/writer.h"
#include "state/catalog.h"
#include "state/identity.h"
#include "state/snapshot.h"

namespace autotrain {

Saver::Saver(Session& session, bool saved)
    : session_(session),
      recipe_(session.recipe),
      state_(session.state),
      writer_(session.folder ? std::make_unique<CheckpointWriter>(session.folder->checkpoints()) : nullptr),
      saved_(saved) {}

void Saver::checkpoint(Training training) {
  const Stopwatch stall;
  const PhaseScope phase(MemoryPhase::kCheckpoint);
  session_.bench.timeline.enter(Activity::kCheckpoint);
  if (writer_) {
    writer_->wait();  // before anything is copied: two copies may not fit
    session_.followers.flush();
  }
  gather_state(session_.bench);
  if (writer_) write(training);
  saved_ = true;
  session_.bench.timeline.enter(Activity::kOther);
  state_.totals.checkpoint_stall_seconds += stall.seconds();
}

void Saver::write(Training training) {
  session_.folder->check_in_place();
  const Retention retention = retention_of(recipe_);
  CheckpointContent saved = content();
  auto background = training == Training::kGoesOn ? background_copy(saved.tensors) : std::nullopt;
  if (background) {
    saved.tensors = std::move(background->tensors);
    writer_->start(state_.position.updates, std::move(saved), retention,
                   [copies = std::move(background->copies)] { copies->wait(); });
  } else {
    writer_->write(state_.position.updates, saved, retention);
  }
}

void Saver::checkpoint_if_changed() {
  if (!saved_) checkpoint(Training::kWaits);
}

void Saver::wait() {
  if (writer_) writer_->wait();
}

void Saver::finish_writing() {
  constexpr double kLongest = 120;  // seconds
  if (writer_) writer_->wait_at_most(kLongest);
}

void Saver::notice_failure() {
  if (writer_) writer_->notice_failure();
}

CheckpointContent Saver::content(int64_t metrics_bytes) {
  state_.totals.seconds = session_.seconds();
  state_.position.metrics_bytes = metrics_bytes;
  return checkpoint_content(session_.bench, {state_, session_.plan, write_recipe(recipe_, catalog()),
                                             identity_of(session_.bench, session_.plan)});
}

// Beside training, which with them stays below the band's upper edge. On a GPU they are in host memory, some
// of which may be there from the last time.
bool Saver::copies_fit(int64_t bytes) const {
  const Device& device = *session_.bench.device;
  if (device.torch_device().is_cpu()) {
    const BatchPlan& plan = session_.plan;
    return static_cast<double>(plan.peak_bytes + bytes) <=
           plan.target_high * static_cast<double>(plan.budget_bytes);
  }
  const int64_t available = tightest(memory_bounds(ResourceLimits::of_this_process())).available_bytes();
  return bytes - device.kept_host_bytes() <= available / 2;
}

// Returns nothing when a copy would not fit beside training, or when the recipe asks for none.
std::optional<Saver::Background> Saver::background_copy(const TensorLists& live) const {
  if (!recipe_.checkpoint.background || !copies_fit(live.bytes())) return std::nullopt;
  try {
    Background background;
    background.tensors = copy_of(live, [&](const std::vector<torch::Tensor>& tensors) {
      background.copies = session_.bench.device->copy_to_host(tensors);
      return background.copies->tensors();
    });
    return background;
  } catch (const std::exception& error) {
    if (classify_failure(error) == Failure::kOther) throw;
    return std::nullopt;
  }
}

std::string Saver::rescue() {
  std::vector<std::string (Saver::*)()> ways;
  if (session_.deputy != nullptr) ways = {&Saver::save_as_deputy};
  if (writer_) ways = {&Saver::save_here, &Saver::save_elsewhere};
  try {
    wait();
  } catch (const std::exception& error) {
    saved_ = false;  // the one that was under way
    log::error("trainer", first_line(error));
  }
  if (writer_ && session_.bench.optimizer->sharded() && !saved_) {
    log::warn("trainer",
              "the ranks, which share out the optimizer's state, are apart: nothing newer than the last "
              "checkpoint can be saved");
    return "";
  }
  for (const auto& save : ways) {
    try {
      const std::string where = (this->*save)();
      if (where.empty()) continue;
      could_not_write_ = false;
      return where;
    } catch (const std::exception& error) {
      could_not_write_ = true;
      log::error("trainer", cat("saving the state failed: ", first_line(error)));
    }
  }
  return "";
}

std::string Saver::saved_in(const std::string& where) const {
  return where.empty() ? "" : cat("update ", state_.position.updates, " is saved in ", where);
}

std::string Saver::save_as_deputy() {
  return saved_in(session_.deputy->save(state_.position,
                                        [this](int64_t metrics_bytes) { return content(metrics_bytes); }));
}

// Not where another rank has done so, because this one was frozen or cut off for a while.
std::string Saver::save_here() {
  const std::string rescued = rescued_state(session_.folder->path(), state_.position.updates);
  if (!rescued.empty()) return "another rank has saved the state in " + rescued;
  checkpoint_if_changed();
  return saved_in(session_.folder->checkpoints().path_of(state_.position.updates).string());
}

// In a folder of its own below the one that the recipe names for it; "" when it names none.
std::string Saver::save_elsewhere() {
  if (!recipe_.checkpoint.fallback) return "";
  const std::filesystem::path run =
      claim_first_free(*recipe_.checkpoint.fallback, session_.folder->path().filename().string());
  const FolderLock lock(run);
  CheckpointFolder checkpoints(run / "checkpoints");
  make_folders(run / "checkpoints");
  write_file_atomically(run / "recipe.yaml", write_recipe(recipe_, catalog()));
  checkpoints.write(state_.position.updates, content());
  return saved_in(
      cat(run.string(), "; go on from there with --output ", shell_word(run.string()), " --resume"));
}

}  // namespace autotrain
