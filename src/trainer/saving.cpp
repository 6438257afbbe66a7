// How the loop saves what a run has learned: in the background, at the end, and when it ends by an error.
#include "autotrain/log.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/text.h"
#include "device/failure.h"
#include "device/memory_phase.h"
#include "device/system_memory.h"
#include "recipe/writer.h"
#include "trainer/catalog.h"
#include "trainer/snapshot.h"
#include "trainer/training_loop.h"

namespace autotrain {
namespace {

constexpr double kUsableForCopies = 0.98;  // of the budget, less what training needs at its peak

}  // namespace

// Written while training goes on where a copy of the state has room; else training waits.
void TrainingLoop::checkpoint_now(bool may_go_on) {
  if (!c_.folder) return;
  const Stopwatch stall;
  const PhaseScope phase(MemoryPhase::kCheckpoint);
  c_.parts.timeline.enter(Activity::kCheckpoint);
  const Retention retention{c_.recipe.checkpoint.keep, c_.state.best_update};
  writer_->wait();  // before anything is copied: two copies may not fit
  c_.folder->flush_metrics();
  CheckpointContent saved = content();
  auto copies = may_go_on ? background_copy(saved.tensors) : std::nullopt;
  if (copies) {
    saved.tensors = std::move(*copies);
    writer_->start(c_.state.updates, std::move(saved), retention);
  } else {
    writer_->write(c_.state.updates, saved, retention);
  }
  saved_ = true;
  c_.parts.timeline.enter(Activity::kOther);
  c_.state.checkpoint_stall_seconds += stall.seconds();
  last_finished_ = steady_seconds();
}

CheckpointContent TrainingLoop::content() {
  c_.state.seconds = seconds_now();
  c_.state.metrics_bytes = c_.folder->metrics().bytes();
  return gather(c_.parts, {c_.state, c_.plan, write_recipe(c_.recipe, catalog()),
                           identity_of(*c_.parts.device, c_.plan)});
}

// Nothing when it would not fit beside training, or when it was not asked for.
std::optional<TensorLists> TrainingLoop::background_copy(const TensorLists& live) const {
  if (!c_.recipe.checkpoint.background) return std::nullopt;
  const int64_t bytes = live.bytes();
  const bool on_cpu = c_.parts.device->torch_device().is_cpu();
  const auto usable = static_cast<int64_t>(kUsableForCopies * static_cast<double>(c_.plan.budget_bytes));
  const bool fits =
      on_cpu ? c_.plan.peak_bytes + bytes <= usable
             : bytes <= tightest(memory_bounds(ResourceLimits::of_this_process())).available_bytes() / 2;
  if (!fits) return std::nullopt;
  try {
    return copy_of(live);
  } catch (const std::exception& error) {
    if (classify_failure(error) == Failure::kOther) throw;
    return std::nullopt;
  }
}

Error TrainingLoop::with_rescue(const Error& error) {
  if (error.code() == ExitCode::kDiverged) return error;  // the checkpoints before are better
  const std::string saved = rescue();
  if (saved.empty()) return error;
  return Error(error.code(), error.where(),
               cat(error.problem(), "\n  update ", c_.state.updates, " is saved in ", saved), error.hint());
}

// Saves what the run had learned up to its last whole update. @return where it stands; "" when it was not
// possible.
std::string TrainingLoop::rescue() {
  if (!c_.folder || torn_ || !c_.parts.step.replayable()) return "";
  try {
    c_.parts.step.abandon();
    loader_.reset();
    settle();
  } catch (const Error& error) {
    if (error.code() == ExitCode::kDiverged) return "";  // the checkpoints before are better
    log::error("trainer", first_line(error));
  } catch (const std::exception& error) {
    log::error("trainer", first_line(error));
  }
  if (underway_.figures.valid()) return "";  // whether the last update counts is not known
  // What this update was to bring comes first on resume.
  const bool evaluated = c_.state.evaluated_update == c_.state.updates || c_.parts.data.validation == nullptr;
  c_.state.evaluation_owed |= !evaluated && evaluation_clock_.near(progress());
  try {
    writer_->wait();
  } catch (const std::exception& error) {
    saved_ = false;  // the one that was under way
    log::error("trainer", first_line(error));
  }
  for (const auto& save : {&TrainingLoop::save_here, &TrainingLoop::save_elsewhere}) {
    try {
      const std::string where = (this->*save)();
      if (!where.empty()) return where;
    } catch (const std::exception& error) {
      log::error("trainer", cat("saving the state failed: ", first_line(error)));
    }
  }
  return "";
}

std::string TrainingLoop::save_here() {
  if (!saved_) checkpoint_now(/*may_go_on=*/false);
  return c_.folder->checkpoints().path_of(c_.state.updates).string();
}

// In a folder of its own below the one that the recipe names for it; "" when it names none.
std::string TrainingLoop::save_elsewhere() {
  if (!c_.recipe.checkpoint.fallback) return "";
  const std::filesystem::path run =
      claim_first_free(*c_.recipe.checkpoint.fallback, c_.folder->path().filename().string());
  const FolderLock lock(run);
  CheckpointFolder checkpoints(run / "checkpoints");
  make_folders(run / "checkpoints");
  write_file_atomically(run / "recipe.yaml", write_recipe(c_.recipe, catalog()));
  checkpoints.write(c_.state.updates, content());
  return cat(run.string(), "; go on from there with --output ", run.string(), " --resume");
}

}  // namespace autotrain
