#include "doctor/doctor.h"

#include <algorithm>

#include "autotrain/error.h"
#include "autotrain/trainer.h"
#include "base/text.h"
#include "base/units.h"
#include "data/loader.h"
#include "device/failure.h"
#include "step/precision.h"

namespace autotrain {
namespace {

constexpr double kMuchWaiting = 0.05;    // of the time
constexpr double kBusy = 0.5;            // a loader thread that computes less waits for something
constexpr double kNearBandwidth = 0.05;  // of what copying reaches; loading touches memory several times
constexpr double kWorthIt = 1.05;        // gain of a cure that names the cause
constexpr double kFarAhead = 2;          // times as fast as training, loading alone is not waited for
constexpr int64_t kSmaller = 4;          // times, that a smaller micro-batch is smaller, a larger one larger
constexpr double kSameTime = 0.8;        // of a micro-batch's time, that a smaller one takes
constexpr double kSteady = 0.8;          // of the faster trial's speed, that the slower one has
constexpr int64_t kSleepers = 16;        // loader threads that wait for a disk need no core
constexpr const char* kLargerBatch = "larger_batch";  // no cure: it learns otherwise

// The plan typed in, so that every trial runs the same micro-batches; of a batch that changes the largest.
std::vector<std::string> typed(const BatchPlan& plan) {
  return {"batch.schedule=null", "batch.adapt=null", cat("batch.effective=", plan.effective_batch),
          cat("execution.micro_batch=", plan.micro_batch)};
}

std::string in_words(MemoryFormat format) {
  return format == MemoryFormat::kChannelsLast ? "with their channels last" : "contiguous";
}

class Doctor {
 public:
  Doctor(const DoctorOptions& options, const MachineFigures& machine)
      : options_(options), machine_(machine) {}

  Diagnosis run() {
    options_.progress("planning");
    const Recipe recipe = with({});
    found_.plan = Trainer::from_recipe(recipe, {.write_files = false}).plan();
    base_ = typed(found_.plan);
    options_.progress("training as the recipe says");
    found_.before = try_training(next({}), options_.seconds);
    options_.progress("training operator by operator");
    observe_step();
    options_.progress("loading alone");
    found_.loading = try_loading(next({}), found_.plan.micro_batch, options_.seconds / 2);
    for (Cure& cure : candidates(recipe)) attempt(std::move(cure));
    measure_again();
    try_again();
    std::ranges::stable_sort(found_.cures, std::greater{}, &Cure::gain);
    conclude();
    return std::move(found_);
  }

 private:
  Recipe with(const std::vector<std::string>& settings) const {
    std::vector<std::string> all = options_.overrides;
    all.insert(all.end(), base_.begin(), base_.end());
    all.insert(all.end(), settings.begin(), settings.end());
    return load_recipe(options_.config, all);
  }

  // Another order of the samples each time, so that no trial finds the last one's in memory.
  Recipe next(const std::vector<std::string>& settings) {
    Recipe recipe = with(settings);
    recipe.seed += ++trials_;
    return recipe;
  }

  // It needs a little more memory than training: where that is missing, the rest is still worth saying.
  void observe_step() {
    try {
      found_.step = profile_step(with({}), found_.plan.micro_batch);
    } catch (const Error& error) {
      if (error.code() == ExitCode::kInterrupted) throw;
    } catch (const std::exception& error) {
      if (classify_failure(error) == Failure::kOther) throw;
    }
  }

  double share(const char* activity) const {
    const auto found = found_.before.shares.find(activity);
    return found == found_.before.shares.end() ? 0 : found->second;
  }

  bool waits() const { return share("data_wait") > kMuchWaiting; }

  // A step that waits although loading alone is far ahead waits for a core.
  bool waits_for_loading() const {
    return waits() &&
           loading_may_hold_back(found_.loading.samples_per_second, found_.before.samples_per_second);
  }

  std::string loading_cause() const {
    if (found_.loading.busy_share < kBusy) return "storage";
    const bool copies = found_.loading.bytes_per_second > kNearBandwidth * machine_.copy_bytes_per_second;
    return copies ? "copy" : "decode";
  }

  // The settings that a person who knows the program would try on this recipe.
  std::vector<Cure> candidates(const Recipe& recipe) const {
    std::vector<Cure> cures;
    const auto add = [&](std::string cause, std::vector<std::string> settings) {
      cures.push_back({.cause = std::move(cause), .settings = std::move(settings), .after = {}});
    };
    const ExecutionRecipe& e = recipe.execution;
    const bool sleeps = loading_cause() == "storage";
    const int64_t workers = e.loader.workers.value_or(1);
    if (waits()) {
      const bool held_back = e.loader.prefetch || e.loader.prefetch_memory != Budget{} || workers == 0;
      if (held_back) {
        add("prefetch", {"execution.loader.workers=auto", "execution.loader.prefetch=auto",
                         "execution.loader.prefetch_memory=auto"});
      }
      const bool loads = waits_for_loading();
      const int64_t more = sleeps ? kSleepers : machine_.cores;
      if ((loads && more > workers) || held_back) {
        add(loading_cause(), {cat("execution.loader.workers=", more), cat("execution.loader.prefetch=", more),
                              "execution.loader.prefetch_memory=auto"});
      }
      const int64_t bytes = found_.loading.holdable_bytes;
      if ((loads || held_back) && bytes > 0 && bytes <= machine_.budget_bytes)
        add(loading_cause(), {"execution.loader.preload=ram"});
    }
    if (workers > machine_.cores && !sleeps) {
      add("loader_threads", {"execution.loader.workers=auto", "execution.loader.prefetch=auto"});
    }
    if (e.threads && *e.threads != machine_.cores) add("threads", {"execution.threads=auto"});
    if (e.micro_batch && *e.micro_batch < found_.plan.effective_batch) {
      add("micro_batch", {"execution.micro_batch=auto"});
    }
    if (smaller_micro_batch() > 0)
      add("smaller_micro_batch", {cat("execution.micro_batch=", smaller_micro_batch())});
    if (larger_batch() > 0) {
      add(kLargerBatch,
          {cat("batch.effective=", larger_batch()), cat("execution.micro_batch=", larger_batch())});
    }
    const bool faster_bf16 =
        std::ranges::count(machine_.rates, "bf16", &MachineFigures::Rate::precision) > 0 &&
        !is_half(found_.plan.precision);
    if (found_.step && found_.step->convolutions) {
      const bool last = found_.plan.memory_format == MemoryFormat::kChannelsLast;
      add("memory_format", {cat("execution.memory_format=", last ? "contiguous" : "channels_last")});
    }
    if (faster_bf16) add("compute", {"execution.precision=bf16"});
    return cures;
  }

  // A quarter of the plan's; 0 where it is too small for that.
  int64_t smaller_micro_batch() const {
    const int64_t size = found_.plan.micro_batch / kSmaller;
    return size >= 2 ? size : 0;
  }

  // Returns four times as many samples, where a quarter is too small to be tried and one micro-batch is all
  // of an update; 0 elsewhere.
  int64_t larger_batch() const {
    const BatchPlan& plan = found_.plan;
    return smaller_micro_batch() == 0 && plan.micro_batch == plan.effective_batch
               ? kSmaller * plan.effective_batch
               : 0;
  }

  // Whether a trial with more or fewer samples shows it, whichever of the trials of each is taken.
  bool names_launches(const Cure& cure) const {
    if (!cure.failure.empty()) return false;
    const int64_t planned = found_.plan.micro_batch;
    if (cure.cause == "smaller_micro_batch")
      return bound_by_launches({planned, found_.slowest_before}, {smaller_micro_batch(), cure.fastest});
    return cure.cause == kLargerBatch && bound_by_launches({larger_batch(), cure.after.samples_per_second},
                                                           {planned, found_.before.samples_per_second});
  }

  bool launches_bound_it() const {
    return std::ranges::any_of(found_.cures, [&](const Cure& cure) { return names_launches(cure); });
  }

  // Fills what comes of a cure, and of two trials of it the slower one.
  void try_cure(Cure& cure) {
    try {
      Trial trial = try_training(next(cure.settings), options_.seconds);
      const double rate = trial.samples_per_second;
      const bool first = cure.fastest == 0;
      cure.fastest = std::max(cure.fastest, rate);
      if (first || rate < cure.after.samples_per_second) cure.after = std::move(trial);
    } catch (const Error& error) {
      if (error.code() == ExitCode::kInterrupted) throw;
      cure.failure = error.what();
    } catch (const std::exception& error) {
      cure.failure = error.what();
    }
  }

  void attempt(Cure cure) {
    options_.progress(cat("trying ", join(cure.settings, ", ")));
    try_cure(cure);
    found_.cures.push_back(std::move(cure));
  }

  void take_gain(Cure& cure) const {
    cure.gain = cure.failure.empty() ? cure.after.samples_per_second / found_.before.samples_per_second : 0;
  }

  // Other work of the machine during a single trial would name causes that are not there.
  void try_again() {
    for (Cure& cure : found_.cures) {
      if (!(cure.gain > kWorthIt) && !names_launches(cure)) continue;
      options_.progress(cat("trying ", join(cure.settings, ", "), ", again"));
      try_cure(cure);
      take_gain(cure);
    }
  }

  // Files that trials have read are in memory afterwards, and the machine may have become slower or faster:
  // the recipe as it is gets the last word too, and the better of both times.
  void measure_again() {
    found_.slowest_before = found_.before.samples_per_second;
    if (found_.cures.empty()) return;
    options_.progress("training as the recipe says, again");
    const Trial again = try_training(next({}), options_.seconds);
    found_.slowest_before = std::min(found_.slowest_before, again.samples_per_second);
    if (again.samples_per_second > found_.before.samples_per_second) found_.before = again;
    for (Cure& cure : found_.cures) take_gain(cure);
  }

  // The cure that helped most names the cause; without one, where the time goes does.
  void conclude() {
    const auto best =
        std::ranges::find_if(found_.cures, [](const Cure& cure) { return cure.cause != kLargerBatch; });
    if (best != found_.cures.end() && best->gain > kWorthIt) {
      found_.cause = best->cause;
    } else {
      found_.cause = waits_for_loading()   ? loading_cause()
                     : launches_bound_it() ? "launch_overhead"
                                           : "compute";
    }
    found_.verdict = sentence() + unsteady();
  }

  std::string unsteady() const {
    const double fastest = found_.before.samples_per_second;
    if (found_.slowest_before >= kSteady * fastest) return "";
    return cat("; the machine was not steady: the same recipe trained on ",
               format_rate(found_.slowest_before), " to ", format_rate(fastest),
               " samples a second, so that figures say little (try longer --seconds, without other work)");
  }

  std::string sentence() const {
    const std::string waiting =
        cat("the step waits for data ", format_percent(share("data_wait")), " of the time");
    const std::string busy =
        cat("a loading thread computes ", format_percent(found_.loading.busy_share), " of its time");
    if (found_.cause == "storage") return cat(waiting, ": reading is slow (", busy, ", the rest it waits)");
    if (found_.cause == "decode") return cat(waiting, ": making samples is work (", busy, ")");
    if (found_.cause == "copy") {
      return cat(waiting, ": samples are large, loading moves ",
                 format_bytes(static_cast<int64_t>(found_.loading.bytes_per_second)),
                 " a second of finished batches");
    }
    if (found_.cause == "prefetch") return cat(waiting, ": too little is prepared ahead of it");
    if (found_.cause == "loader_threads") {
      return cat("more loader threads compute than the ", machine_.cores,
                 " cores: they are in the step's way");
    }
    if (found_.cause == "threads") {
      const int64_t threads = with({}).execution.threads.value_or(machine_.cores);
      if (threads < machine_.cores)
        return cat(threads, threads == 1 ? " thread computes" : " threads compute", " where there are ",
                   machine_.cores, " cores");
      return cat("more threads compute than there are cores (", machine_.cores,
                 "): they wait for each other");
    }
    if (found_.cause == "micro_batch") {
      return cat("micro-batches of ", found_.plan.micro_batch, " are too small to keep the device busy");
    }
    if (found_.cause == "smaller_micro_batch") {
      return cat("micro-batches of ", found_.plan.micro_batch,
                 " are larger than this device likes: ", smaller_micro_batch(), " at a time is faster");
    }
    if (found_.cause == "launch_overhead") {
      return cat(
          "a micro-batch of ", larger_batch() > 0 ? found_.plan.micro_batch : smaller_micro_batch(),
          " takes nearly as long as one of ", larger_batch() > 0 ? larger_batch() : found_.plan.micro_batch,
          ": the time goes to starting operators and reading weights, which more samples share; a larger "
          "batch.effective costs little more");
    }
    if (found_.cause == "memory_format") {
      return cat("images lie ", in_words(found_.plan.memory_format), ", and ", found_.step->slowest,
                 " takes ", format_percent(found_.step->slowest_share), " of a step");
    }
    const std::string computes =
        cat("the device computes ", format_percent(share("forward") + share("backward") + share("update")),
            " of the time");
    if (!waits()) return computes + ": data is there when it is needed";
    return cat(computes, "; ", waiting, ", though loading alone is ",
               brief(found_.loading.samples_per_second / found_.before.samples_per_second, 2),
               " times as fast: other work may have had the cores");
  }

  const DoctorOptions& options_;
  const MachineFigures& machine_;
  std::vector<std::string> base_;
  int64_t trials_ = 0;
  Diagnosis found_;
};

}  // namespace

bool bound_by_launches(const SizeRate& whole, const SizeRate& smaller) {
  return smaller.seconds() > kSameTime * whole.seconds() && whole.seconds() > kSameTime * smaller.seconds();
}

bool loading_may_hold_back(double loading_rate, double training_rate) {
  return loading_rate < kFarAhead * training_rate;
}

Diagnosis diagnose(const DoctorOptions& options, const MachineFigures& machine) {
  return Doctor(options, machine).run();
}

}  // namespace autotrain
