#include "trainer/parts.h"

#include "autotrain/error.h"
#include "base/random.h"
#include "base/text.h"
#include "base/units.h"
#include "data/bad_samples.h"
#include "data/datasets.h"
#include "device/failure.h"
#include "device/memory_phase.h"
#include "device/system_memory.h"
#include "model/losses.h"
#include "model/models.h"
#include "plan/memory_statement.h"
#include "plan/scopes.h"
#include "trainer/memory_format.h"
#include "trainer/preloading.h"

namespace autotrain {
namespace {

std::unique_ptr<Optimizer> make_run_optimizer(const Recipe& recipe, Task& task, Device& device) {
  return within_budget(device, [&] {
    {
      const PhaseScope phase(MemoryPhase::kModel);
      task.module().to(device.torch_device());
    }
    const PhaseScope phase(MemoryPhase::kOptimizer);
    return make_optimizer(recipe.optimizer, trainable_parameters(task.module()));
  });
}

WeightAverage make_average(const Recipe& recipe, Task& task, Device& device) {
  if (!recipe.average.half_life) return {};
  return within_budget(device, [&] {
    const PhaseScope phase(MemoryPhase::kOptimizer);
    return WeightAverage(trainable_parameters(task.module()), static_cast<double>(*recipe.average.half_life));
  });
}

constexpr int64_t kMostWorkers = 16;  // that `auto` comes to: each may hold a batch

// Cores that loader threads may use: a CPU that waits for data computes nothing meanwhile; beside a GPU one
// core feeds it.
int64_t spare_cores(const Device& device) {
  const int64_t spare = usable_cores() - (device.torch_device().is_cpu() ? 0 : 1);
  return std::clamp<int64_t>(spare, 1, kMostWorkers);
}

// 0: no bound.
int64_t prefetch_bytes(const Budget& asked, const Device& device) {
  switch (asked.kind) {
    case Budget::Kind::kBytes: return asked.bytes;
    case Budget::Kind::kShare:
      return static_cast<int64_t>(asked.share * static_cast<double>(device.budget_bytes()));
    case Budget::Kind::kAuto: break;
  }
  if (device.torch_device().is_cpu()) return 0;
  return tightest(memory_bounds(ResourceLimits::of_this_process())).available_bytes() / 8;
}

std::string describe(const DatasetInfo& info) {
  std::vector<std::string> sizes;
  for (const int64_t size : info.input_shape) sizes.push_back(std::to_string(size));
  return cat("samples of ", join(sizes, " × "), " with ", info.classes, " classes or numbers to predict");
}

// Whether a model for samples of the one size takes those of the other.
bool fits_in(const DatasetInfo& validation, const DatasetInfo& train) {
  if (train.kind == DatasetInfo::Kind::kVectors) return validation.input_shape == train.input_shape;
  if (train.kind == DatasetInfo::Kind::kTokens) {
    return validation.kind == train.kind && validation.input_shape[0] <= train.input_shape[0];
  }
  return true;
}

// The model is built for the training samples; it must be able to take the others too.
void check_alike(const DatasetInfo& train, const DatasetInfo& validation) {
  if (fits_in(validation, train) && validation.classes <= train.classes &&
      validation.vocabulary <= train.vocabulary)
    return;
  throw Error(ExitCode::kBadRecipe, "data.validation",
              cat("has ", describe(validation), "; data.train has ", describe(train)),
              "give both the same keys; of a table, data.validation.like is the training file");
}

}  // namespace

Loader::Options resolve_loader(const LoaderRecipe& asked, const Device& device, MemoryFormat format) {
  const int64_t most = asked.workers.value_or(spare_cores(device));
  const int64_t prefetch = asked.prefetch.value_or(most == 0 ? 0 : std::max<int64_t>(2, most));
  return {.workers = std::min(asked.workers.value_or(1), prefetch),
          .prefetch = prefetch,
          .prefetch_bytes = prefetch_bytes(asked.prefetch_memory, device),
          .pin = !device.torch_device().is_cpu(),
          .channels_last = format == MemoryFormat::kChannelsLast};
}

void fail_loading(const std::exception& error, Device& device) {
  if (classify_failure(error) == Failure::kOther) throw;
  const std::optional<Refusal> refusal = device.memory().last_refusal();
  throw Error(ExitCode::kDoesNotFit, "execution.memory.budget",
              cat("the data set and the model with its optimizer need more than the ",
                  format_bytes(device.budget_bytes()), " of the budget",
                  refusal ? describe(*refusal) : ": " + first_line(error)),
              "raise execution.memory.budget, use less data, or a smaller model");
}

std::unique_ptr<Device> open_run_device(const Recipe& recipe, std::optional<ResolvedBudget> settled) {
  const ExecutionRecipe& e = recipe.execution;
  auto device = open_device({.device = e.device,
                             .budget = e.memory.budget,
                             .settled = std::move(settled),
                             .threads = e.threads.value_or(0),
                             .deterministic = e.deterministic});
  device->memory().set_limit(device->budget_bytes());
  return device;
}

void check_trains(Precision precision) {
  if (precision != Precision::kInt8) return;
  throw Error(ExitCode::kBadRecipe, "execution.precision", "int8 is for inference only: nothing trains in it",
              "use fp32, bf16 or auto; autotrain sweep --mode inference measures int8");
}

namespace {

Precision training_precision(const Recipe& recipe, const Device& device) {
  const Precision precision = resolve_precision(recipe, device);
  check_trains(precision);
  return precision;
}

}  // namespace

Precision resolve_precision(const Recipe& recipe, const Device& device) {
  if (recipe.execution.precision != Precision::kAuto) return recipe.execution.precision;
  if (device.has_native_bf16()) return Precision::kBf16;
  return device.torch_device().is_cpu() ? Precision::kFp32 : Precision::kFp16;
}

RunData load_data(const Recipe& recipe, Device& device) {
  const PhaseScope phase(MemoryPhase::kData);
  RunData data{.from_recipe = true};
  const auto load = [&](const Choice& choice, const AugmentRecipe& augment,
                        const char* key) -> const Dataset* {
    std::unique_ptr<Dataset> dataset = make_dataset(choice, augment);
    preload(*dataset, key, recipe, device);
    if (recipe.data.bad_samples == BadSamples::kSkip) {
      auto skipping = std::make_unique<SkippingDataset>(std::move(dataset));
      data.skipping.push_back(skipping.get());
      dataset = std::move(skipping);
    }
    return data.owned.emplace_back(std::move(dataset)).get();
  };
  data.train = load(recipe.data.train, recipe.data.augment, "data.train");
  if (recipe.data.validation) {
    data.validation = load(*recipe.data.validation, {}, "data.validation");
    check_alike(data.train->info(), data.validation->info());
  }
  return data;
}

std::unique_ptr<Task> build_task(const Recipe& recipe, const Dataset& train) {
  const PhaseScope phase(MemoryPhase::kModel);
  const DatasetInfo info = train.info();
  torch::manual_seed(
      derive_key(static_cast<uint64_t>(recipe.seed), static_cast<uint64_t>(RandomUse::kWeights)));
  auto network = make_model(recipe.model, {info.input_shape, info.classes, info.vocabulary});
  return supervised(std::move(network), make_loss(recipe.loss, recipe.evaluation.metrics));
}

namespace {

// The module takes a format if it also learns with it.
MemoryFormat training_memory_format(const Recipe& recipe, Parts& parts) {
  return resolve_memory_format(recipe, parts.precision, *parts.device, *parts.task, *parts.data.train,
                               [&](const Batch& batch) {
                                 const WindowScope window(parts.step);
                                 parts.step.accumulate(batch, 0, 0);
                               });
}

}  // namespace

Parts::Parts(const Recipe& recipe, std::unique_ptr<Device> run_device, RunData run_data,
             std::unique_ptr<Task> run_task)
    : device(std::move(run_device)),
      data(std::move(run_data)),
      task(std::move(run_task)),
      precision(training_precision(recipe, *device)),
      timeline(device->torch_device()),
      optimizer(make_run_optimizer(recipe, *task, *device)),
      scaler(recipe.execution.scaler, precision == Precision::kFp16, device->torch_device()),
      average(make_average(recipe, *task, *device)),
      step(*task, *optimizer, scaler,
           {.device = device->torch_device(),
            .precision = precision,
            .clip_norm = recipe.optimizer.clip_norm,
            .seed = static_cast<uint64_t>(recipe.seed),
            .timeline = &timeline},
           &average),
      memory_format(training_memory_format(recipe, *this)),
      stream(static_cast<uint64_t>(recipe.seed), data.train->size(), recipe.data.shuffle),
      loader(resolve_loader(recipe.execution.loader, *device, memory_format)),
      most_workers(recipe.execution.loader.workers ? loader.workers
                                                   : std::min(spare_cores(*device), loader.prefetch)) {}

Workbench Parts::workbench() {
  return {.device = *device,
          .task = *task,
          .optimizer = *optimizer,
          .scaler = scaler,
          .step = step,
          .train = *data.train,
          .validation = data.validation,
          .stream = stream,
          .loader = loader,
          .most_workers = most_workers};
}

}  // namespace autotrain
