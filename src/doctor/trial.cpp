#include "doctor/trial.h"

#include <algorithm>
#include <fstream>

#include "autotrain/error.h"
#include "autotrain/trainer.h"
#include "base/clock.h"
#include "base/interrupt.h"
#include "base/without_locale.h"
#include "data/loader.h"
#include "data/preload.h"
#include "measure/subject.h"
#include "optim/plateau.h"
#include "setup/assembly.h"

namespace autotrain {
namespace {

constexpr int64_t kWarmUp = 2;    // updates that are not counted
constexpr int64_t kLeast = 3;     // updates that are, however long they take
constexpr double kForever = 1e6;  // epochs

// The same training with nothing beside it, long enough for any trial.
Recipe bare(Recipe recipe) {
  recipe.data.validation.reset();
  recipe.data.test.reset();
  recipe.evaluation.monitor = "loss";
  recipe.evaluation.every = {};
  recipe.stop = {};
  recipe.stop.epochs = kForever;
  if (plateau_of(recipe)) recipe.schedule.shape = ScheduleRecipe().shape;  // nothing that it could follow
  recipe.execution.trace.reset();
  recipe.execution.telemetry = 0;
  return recipe;
}

// Seconds that this thread could have computed and had no core; 0 where the kernel does not say.
double seconds_without_core() {
  WithoutLocale<std::ifstream> file("/proc/thread-self/schedstat");
  double computed = 0, waited = 0;  // nanoseconds
  return file >> computed >> waited ? 1e-9 * waited : 0;
}

void stop_if_interrupted() {
  autotrain::stop_if_interrupted("doctor", "a signal stopped it");
}

}  // namespace

Trial try_training(Recipe recipe, double seconds) {
  Trial trial;
  double spent = 0, samples = 0;
  int64_t before = 0, counted = 0;
  std::map<std::string, double> sums;
  const auto follow = [&](const UpdateRecord& record) {
    const int64_t size = record.samples - std::exchange(before, record.samples);
    if (record.update <= kWarmUp) return Flow::kContinue;
    ++counted;
    samples += static_cast<double>(size);
    spent += static_cast<double>(size) / record.samples_per_second;
    for (const auto& [activity, share] : record.activity_seconds) sums[activity] += share;
    return spent >= seconds && counted >= kLeast ? Flow::kStop : Flow::kContinue;
  };
  Trainer trainer = Trainer::from_recipe(bare(std::move(recipe)), {.write_files = false});
  trainer.on_update(follow);
  trainer.fit();
  stop_if_interrupted();
  if (counted == 0)
    throw Error(ExitCode::kBadRecipe, "doctor", "no update was counted", "give the recipe more data");
  trial.samples_per_second = samples / spent;
  double all = 0;
  for (const auto& [activity, sum] : sums) all += sum;
  for (const auto& [activity, sum] : sums) trial.shares[activity] = sum / all;
  return trial;
}

std::optional<StepProfile> profile_step(Recipe recipe, int64_t micro_batch) {
  recipe.sweep.mode = SweepMode::kTraining;
  const auto subject = make_subject(recipe);
  subject->load(micro_batch);
  for (int64_t i = 0; i < kWarmUp; ++i) subject->call();
  std::map<std::string, double> others;
  double seconds = 0, products = 0;
  StepProfile profile;
  for (int64_t i = 0; i < kLeast; ++i) {
    stop_if_interrupted();
    const std::optional<ForwardCount> step = subject->observe();
    if (!step) return std::nullopt;
    seconds += step->seconds;
    for (const OperatorCount& each : step->operators) {
      (each.flops > 0 ? products : others[each.name]) += each.seconds;
      profile.convolutions |= each.kind == OperatorKind::kConvolution;
    }
  }
  profile.products_share = products / seconds;
  for (const auto& [name, spent] : others) {
    if (spent / seconds <= profile.slowest_share) continue;
    profile.slowest = name;
    profile.slowest_share = spent / seconds;
  }
  return profile;
}

LoadingFigures try_loading(const Recipe& recipe, int64_t micro_batch, double seconds) {
  const auto device = open_run_device(recipe);
  const RunData data = within_budget(*device, [&] { return load_data(recipe, *device); });
  const Stream stream(static_cast<uint64_t>(recipe.seed), data.train->size(), recipe.data.shuffle,
                      data.balance);
  LoadingFigures figures;
  const auto* const offer = dynamic_cast<const Preloadable*>(data.train);
  if (offer != nullptr) figures.holdable_bytes = offer->ram_bytes();
  {
    const Stopwatch watch;
    Loader loader(*data.train, stream, endless_windows(*data.train, stream, {micro_batch, micro_batch}, 0),
                  resolve_loader(recipe.execution.loader, *device, MemoryFormat::kContiguous));
    double samples = 0, bytes = 0;
    do {
      stop_if_interrupted();
      const std::optional<Batch> batch = loader.next();
      samples += static_cast<double>(batch->samples);
      bytes += static_cast<double>(batch->inputs.nbytes());
    } while (watch.seconds() < seconds);
    figures.samples_per_second = samples / watch.seconds();
    figures.bytes_per_second = bytes / watch.seconds();
  }
  // Elsewhere in the data: what was just loaded is in memory now.
  const int64_t elsewhere = data.train->size() / 2;
  Loader alone(*data.train, stream,
               endless_windows(*data.train, stream, {micro_batch, micro_batch}, elsewhere), {.workers = 0});
  const Stopwatch watch;
  const double computed = thread_cpu_seconds(), without_core = seconds_without_core();
  do {
    stop_if_interrupted();
    alone.next();
  } while (watch.seconds() < seconds);
  const double busy = thread_cpu_seconds() - computed;
  const double had_core = watch.seconds() - (seconds_without_core() - without_core);
  figures.busy_share = std::min(1.0, busy / std::max(busy, had_core));
  return figures;
}

}  // namespace autotrain
