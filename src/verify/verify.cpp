#include "verify/verify.h"

#include <signal.h>

#include <cerrno>
#include <cmath>
#include <random>

#include "autotrain/error.h"
#include "autotrain/trainer.h"
#include "base/child.h"
#include "base/clock.h"
#include "base/file_layer.h"
#include "base/files.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "comm/meeting_place.h"
#include "device/caching_allocator.h"
#include "device/cores.h"
#include "device/device.h"
#include "device/gpu_facts.h"
#include "plan/planner.h"
#include "report/metrics_file.h"
#include "verify/run_difference.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

using Result = Verdict::Result;

// Losses of a run in other micro-batches: rounding, which updates amplify.
constexpr double kRoundingTolerance = 1e-3;
constexpr int kInterruptedCode = static_cast<int>(ExitCode::kInterrupted);

// Has the stages of a batch that changes follow each other so soon that each has its part of the updates.
void shorten_stages(Recipe& recipe, int64_t updates) {
  std::vector<BatchStageRecipe>& stages = recipe.batch.schedule.stages;
  if (stages.empty()) return;
  stages.resize(std::min(stages.size(), static_cast<size_t>(updates)));
  const auto count = static_cast<int64_t>(stages.size());
  int64_t samples = 0;
  for (int64_t i = 0; i < count; ++i) {
    BatchStageRecipe& stage = stages[static_cast<size_t>(i)];
    stage.samples = samples;
    samples += (updates * (i + 1) / count - updates * i / count) * *stage.effective;
  }
  recipe.stop.updates.reset();
  recipe.stop.samples = samples;
}

// Bits are compared, so a GPU's kernels must repeat, and the run ends where one cannot. Those of a CPU do by
// default.
std::optional<bool> kernels_that_repeat(const Recipe& recipe) {
  const auto& asked = recipe.execution.deterministic;
  if (recipe.execution.device == "cpu" || !kernel_shows_a_gpu())
    return asked.value_or(false) ? asked : std::nullopt;
  return true;
}

// The recipe, shortened, with a checkpoint at every update.
Recipe short_recipe(Recipe recipe, int64_t updates) {
  recipe.stop = StopRecipe{.updates = updates, .max_skipped = recipe.stop.max_skipped};
  shorten_stages(recipe, updates);
  recipe.evaluation.every =
      Interval{Interval::Unit::kUpdates, static_cast<double>(std::max<int64_t>(1, updates / 2))};
  recipe.checkpoint.every = Interval{Interval::Unit::kUpdates, 1};
  recipe.checkpoint.fallback.reset();
  recipe.execution.deterministic = kernels_that_repeat(recipe);
  recipe.execution.recovery = Recovery::kShrink;
  recipe.execution.search.plan_cache = false;
  return recipe;
}

void type_in(const nlohmann::json& plan, Recipe& recipe) {
  recipe.execution.micro_batch = plan.at("micro_batch").get<int64_t>();
  recipe.evaluation.micro_batch = plan.value("evaluation_micro_batch", *recipe.execution.micro_batch);
}

int train(const Recipe& recipe, const fs::path& folder, bool resume) {
  install_signal_handlers();
  Trainer trainer = Trainer::from_recipe(recipe, {.output = folder, .resume = resume});
  return trainer.fit().exit_code;
}

// The disk is full once, at the first write of a checkpoint's tensors.
class FullOnce final : public FileLayer {
 public:
  ssize_t write(int descriptor, const void* bytes, size_t count) override {
    if (count < 4096 || done_) return FileLayer::write(descriptor, bytes, count);
    done_ = true;
    errno = ENOSPC;
    return -1;
  }

 private:
  bool done_ = false;
};

// The proof of one recipe: the undisturbed run, and every other one compared with it.
class Proof {
 public:
  Proof(const Recipe& recipe, const VerifyOptions& options, const std::function<void(const Verdict&)>& report)
      : options_(options),
        searched_(short_recipe(recipe, options.updates)),
        typed_(searched_),
        report_(report),
        random_(static_cast<uint64_t>(recipe.seed)) {}

  std::vector<Verdict> run() {
    make_folders(options_.folder);
    run_undisturbed();
    searched_against_typed();
    killed();
    stopped();
    refused_once();
    refused_until_smaller();
    disk_full();
    several_ranks();
    return verdicts_;
  }

 private:
  fs::path path(const std::string& name) const { return options_.folder / name; }
  int64_t recoveries_of(const std::string& name) const {
    return nlohmann::json::parse(read_file(path(name) / "summary.json")).at("oom_recoveries").get<int64_t>();
  }
  nlohmann::json plan_of(const std::string& name) const {
    return nlohmann::json::parse(read_file(path(name) / "plan.json"));
  }
  fs::path log(const std::string& name) const { return options_.folder / (name + ".log"); }

  int session(const std::string& name, const std::function<int()>& work) {
    return Child(work, log(name)).wait();
  }

  int train_on(const std::string& name) {
    return session(name, [&] { return train(typed_, path(name), /*resume=*/true); });
  }

  void note(Verdict verdict) {
    verdicts_.push_back(std::move(verdict));
    report_(verdicts_.back());
  }

  // Compares a run that ended with `code` with an undisturbed one, bit for bit.
  void compare(const std::string& disturbance, const std::string& name, int code, const std::string& remark,
               const char* undisturbed = kStraight) {
    Verdict verdict{disturbance, Result::kFailed, ""};
    if (code != 0) {
      verdict.detail = cat("ended with ", code, "; see ", log(name).string());
      return note(verdict);
    }
    verdict.detail = first_difference(path(name), path(undisturbed), updates_);
    if (verdict.detail.empty()) verdict.detail = first_differing_row(path(name), path(undisturbed));
    verdict.result = verdict.detail.empty() ? Result::kSame : Result::kDifferent;
    if (verdict.detail.empty()) verdict.detail = remark;
    note(verdict);
  }

  void run_undisturbed();
  void searched_against_typed();
  void killed();
  void stopped();
  void refused_once();
  void refused_until_smaller();
  void disk_full();
  void several_ranks();
  void several_ranks(int64_t world);
  void one_of_several_killed(const Recipe& typed, int64_t world);
  void one_of_several_refused(const Recipe& typed, int64_t world);
  std::string why_not_several_ranks(int64_t world);
  std::vector<std::unique_ptr<Child>> start_ranks(MeetingPlace& meeting, int64_t world,
                                                  const std::string& name,
                                                  const std::function<int(int64_t rank)>& work) const {
    return meeting.start_ranks(
        world, work, [&](int64_t rank) { return log(rank == 0 ? name : cat(name, "-of-rank-", rank)); });
  }
  int session_of(int64_t world, const std::string& name, const std::function<int(int64_t rank)>& work);

  static constexpr const char* kSearched = "searched";
  static constexpr const char* kStraight = "straight";
  static constexpr const char* kRanks = "ranks";

  const VerifyOptions& options_;
  const Recipe searched_;
  Recipe typed_;
  const std::function<void(const Verdict&)>& report_;
  std::mt19937_64 random_;
  std::vector<Verdict> verdicts_;
  int64_t updates_ = 0;  // of the undisturbed run: fewer than were asked for where its batch grows by a rule
  double seconds_ = 1;   // of the undisturbed run, start-up included
  bool on_cpu_ = true;
};

void Proof::run_undisturbed() {
  const int searched = session(kSearched, [&] { return train(searched_, path(kSearched), false); });
  if (searched != 0) {
    throw Error(static_cast<ExitCode>(searched > 0 ? searched : 70), "verify",
                "the undisturbed run ended with an error:\n" + read_file(log(kSearched)));
  }
  const nlohmann::json plan = plan_of(kSearched);
  type_in(plan, typed_);
  const Stopwatch watch;
  const int straight = session(kStraight, [&] { return train(typed_, path(kStraight), false); });
  seconds_ = watch.seconds();
  on_cpu_ = plan.at("device") == "cpu";
  if (straight != 0)
    throw Error(ExitCode::kInternal, "verify", "the plan that was found did not run typed in");
  updates_ = nlohmann::json::parse(read_file(path(kStraight) / "summary.json")).at("updates").get<int64_t>();
}

void Proof::searched_against_typed() {
  compare("searched, not typed in", kSearched, 0, cat("micro-batch ", *typed_.execution.micro_batch));
}

void Proof::killed() {
  const std::string name = "killed";
  std::uniform_real_distribution<double> moment(0.3, 0.95);
  int64_t kills = 0;
  for (int64_t i = 0; i < options_.kills; ++i) {
    Child child([&] { return train(typed_, path(name), true); }, log(name));
    if (child.ended_within(moment(random_) * seconds_)) break;  // it was nearly done
    child.send(SIGKILL);
    child.wait();
    ++kills;
  }
  const char* const what = "killed and resumed";
  if (kills == 0)
    return note({what, Result::kNotTried,
                 options_.kills == 0 ? "--kills 0 asked for none"
                                     : "the run ended before the first kill: give more --updates"});
  compare(what, name, train_on(name), cat(kills, " kills −9 at random moments"));
}

void Proof::stopped() {
  const std::string name = "stopped";
  const int64_t at = std::max<int64_t>(1, updates_ / 3);
  const int code = session(name, [&] {
    Trainer trainer = Trainer::from_recipe(typed_, {.output = path(name)});
    trainer.on_update([&](const UpdateRecord& update) {
      if (update.update == at) request_interrupt(Interrupt::kStop);
      return Flow::kContinue;
    });
    return trainer.fit().exit_code;
  });
  compare("stopped by a signal and resumed", name, code == kInterruptedCode ? train_on(name) : code,
          cat("at update ", at));
}

// Refuses allocations of a phase in the CPU allocator: `times` in a row once `skip` have passed.
CachingAllocator::Fault refuse(MemoryPhase phase, int64_t skip, int64_t times) {
  return [=, seen = int64_t{0}](int64_t, MemoryPhase now) mutable {
    if (now != phase) return false;
    ++seen;
    return seen > skip && seen <= skip + times;
  };
}

int train_with_fault(const Recipe& recipe, const fs::path& folder, int64_t at_update,
                     CachingAllocator::Fault fault) {
  Trainer trainer = Trainer::from_recipe(recipe, {.output = folder});
  trainer.on_update([&, fault](const UpdateRecord& update) {
    if (update.update == at_update) CachingAllocator::process_wide().set_fault(fault);
    return Flow::kContinue;
  });
  return trainer.fit().exit_code;
}

void Proof::refused_once() {
  const std::string what = "out of memory once";
  if (!on_cpu_) return note({what, Result::kNotTried, "refusals are injected on the CPU only"});
  const std::string name = "refused";
  const int64_t at = std::max<int64_t>(1, updates_ / 2);
  const int code = session(
      name, [&] { return train_with_fault(typed_, path(name), at, refuse(MemoryPhase::kBackward, 3, 1)); });
  if (code == 0 && recoveries_of(name) == 0) return note({what, Result::kNotTried, "nothing was refused"});
  compare(what, name, code, cat("in the backward pass after update ", at, "; the window was run again"));
}

void Proof::refused_until_smaller() {
  const std::string what = "out of memory, smaller micro-batch";
  if (!on_cpu_ || *typed_.execution.micro_batch < 4) {
    return note({what, Result::kNotTried, "needs a CPU and a micro-batch of four samples or more"});
  }
  const std::string name = "shrunk";
  const int64_t at = updates_ - 1;  // one update in other micro-batches: nothing amplifies its rounding
  const int code = session(name, [&] {
    // Each attempt ends at its first refusal: two refusals at the plan's size, and the third attempt is
    // smaller.
    return train_with_fault(typed_, path(name), at, refuse(MemoryPhase::kForward, 1, 2));
  });
  if (code != 0) return compare(what, name, code, "");
  if (recoveries_of(name) < 2) return note({what, Result::kNotTried, "too little was refused"});
  const double gap = largest_loss_difference(path(name), path(kStraight));
  const std::string detail = cat("same samples per update, losses within ", brief(gap));
  if (gap <= kRoundingTolerance) return note({what, Result::kRounding, detail});
  // Dropout and batch normalisation see another cut: that is how they are, and the samples are the same.
  note({what, std::isfinite(gap) ? Result::kAnotherCut : Result::kDifferent, detail});
}

void Proof::disk_full() {
  const std::string name = "full";
  const int code = session(name, [&] {
    FullOnce layer;
    const FileLayerScope scope(layer);
    Recipe recipe = typed_;
    recipe.checkpoint.full_disk_wait = 0;
    return train(recipe, path(name), false);
  });
  if (code != static_cast<int>(ExitCode::kInputOutput)) {
    return note({"disk full and resumed", Result::kFailed, cat("ended with ", code, " instead of 74")});
  }
  compare("disk full and resumed", name, train_on(name), "a checkpoint could not be written");
}

// What the first rank to fail, in their order, ended with.
int Proof::session_of(int64_t world, const std::string& name, const std::function<int(int64_t rank)>& work) {
  MeetingPlace meeting;
  int first = 0;
  for (const auto& rank : start_ranks(meeting, world, name, work)) {
    const int code = rank->wait();
    if (first == 0) first = code;
  }
  return first;
}

// "" when they can be tried.
std::string Proof::why_not_several_ranks(int64_t world) {
  if (!on_cpu_ && !options_.ranks) return "give --ranks where there are as many GPUs";
  const bool batch_norm = session("batch-norm", [&] {
    Trainer trainer = Trainer::from_recipe(typed_, {.write_files = false});
    return has_batch_norm(trainer.module()) ? 1 : 0;
  });
  if (batch_norm) return "batch normalisation's running statistics are each rank's own";
  return plan_of(kStraight).at("effective_batch").get<int64_t>() < world
             ? "an update has fewer samples than there are ranks"
             : "";
}

void Proof::several_ranks() {
  const int64_t world = options_.ranks.value_or(2);
  if (world == 1) return;
  const std::string why_not = why_not_several_ranks(world);
  why_not.empty() ? several_ranks(world) : note({"several ranks", Result::kNotTried, why_not});
}

// Their undisturbed run is one of as many lanes, which one rank can make too.
void Proof::several_ranks(int64_t world) {
  Recipe recipe = searched_;
  recipe.execution.lanes = world;
  recipe.execution.threads = std::max<int64_t>(1, usable_cores().count / world);
  const std::string searched = cat(kRanks, "-", kSearched), alone = "one-rank";
  const std::string what = cat("searched by ", world, " ranks, not typed in");
  const int found =
      session_of(world, searched, [&](int64_t) { return train(recipe, path(searched), false); });
  if (found != 0)
    return note({what, Result::kFailed, cat("ended with ", found, "; see ", log(searched).string())});
  type_in(plan_of(searched), recipe);
  const int typed = session_of(world, kRanks, [&](int64_t) { return train(recipe, path(kRanks), false); });
  if (typed != 0) return note({what, Result::kFailed, cat("typed in it ended with ", typed)});
  compare(what, searched, 0, cat("micro-batch ", *recipe.execution.micro_batch), kRanks);
  compare(cat("one rank in the place of ", world), alone,
          session(alone, [&] { return train(recipe, path(alone), false); }), cat(world, " lanes"), kRanks);
  one_of_several_killed(recipe, world);
  one_of_several_refused(recipe, world);
}

void Proof::one_of_several_killed(const Recipe& typed, int64_t world) {
  const std::string name = "rank-killed", what = "a rank killed, resumed by one";
  {
    MeetingPlace meeting;
    const auto ranks =
        start_ranks(meeting, world, name, [&](int64_t) { return train(typed, path(name), false); });
    const fs::path state = path(name) / "checkpoints" / "update-1" / "state.json";
    while (!fs::exists(state) && !ranks[0]->ended_within(0.01)) continue;
    ranks.back()->send(SIGKILL);
    const int code = ranks[0]->wait();
    // With so few updates it may have been done already.
    if (code != kInterruptedCode && code != 0)
      return note({what, Result::kFailed, cat("another rank ended with ", code, " instead of 75")});
  }
  compare(what, name, session(name, [&] { return train(typed, path(name), true); }),
          cat("rank ", world - 1, " by kill −9"), kRanks);
}

void Proof::one_of_several_refused(const Recipe& typed, int64_t world) {
  const std::string name = "rank-refused", what = "out of memory on one rank";
  if (!on_cpu_) return note({what, Result::kNotTried, "refusals are injected on the CPU only"});
  const int64_t at = std::max<int64_t>(1, updates_ / 2);
  const int code = session_of(world, name, [&](int64_t rank) {
    if (rank != world - 1) return train(typed, path(name), false);
    return train_with_fault(typed, path(name), at, refuse(MemoryPhase::kBackward, 3, 1));
  });
  if (code == 0 && recoveries_of(name) == 0) return note({what, Result::kNotTried, "nothing was refused"});
  compare(what, name, code, cat("on rank ", world - 1, " after update ", at, "; all ran the window again"),
          kRanks);
}

}  // namespace

std::vector<Verdict> verify(const Recipe& recipe, const VerifyOptions& options,
                            const std::function<void(const Verdict&)>& on_verdict) {
  return Proof(recipe, options, on_verdict).run();
}

}  // namespace autotrain
