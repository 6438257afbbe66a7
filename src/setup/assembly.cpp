#include "setup/assembly.h"

#include <cmath>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/random.h"
#include "base/text.h"
#include "base/units.h"
#include "checkpoint/finite_weights.h"
#include "data/bad_samples.h"
#include "data/channels_last.h"
#include "data/fingerprint.h"
#include "data/names.h"
#include "data/shape_text.h"
#include "device/cores.h"
#include "device/failure.h"
#include "device/generators.h"
#include "device/memory_phase.h"
#include "device/system_memory.h"
#include "model/chosen_inputs.h"
#include "model/experts.h"
#include "model/losses.h"
#include "model/mixture_task.h"
#include "model/models.h"
#include "model/own_loss.h"
#include "model/pruned.h"
#include "model/recompute_scope.h"
#include "plan/memory_statement.h"
#include "plan/scopes.h"
#include "setup/closing_samples.h"
#include "setup/data_places.h"
#include "setup/first_samples.h"
#include "setup/memory_format.h"
#include "setup/own_loss_check.h"
#include "setup/preloading.h"
#include "setup/sample_check.h"
#include "state/data_files.h"
#include "step/autocast.h"
#include "step/loss_terms.h"
#include "step/precision.h"

namespace autotrain {
namespace {

// Of the micro-batches under way.
double norm_of_gradients(const torch::nn::Module& module) {
  double squares = 0;
  for (const torch::Tensor& parameter : module.parameters()) {
    const torch::Tensor& gradient = parameter.grad();
    if (!gradient.defined()) continue;
    const torch::Tensor dense = gradient.is_sparse() ? gradient._values() : gradient;
    squares += dense.to(torch::kFloat64).square().sum().item<double>();
  }
  return std::sqrt(squares);
}

constexpr int64_t kMostWorkers = 16;  // that `auto` comes to: each may hold a batch

// Cores that loader threads may use: a CPU that waits for data computes nothing meanwhile; beside a GPU one
// core feeds it.
int64_t spare_cores(const Device& device, int64_t ranks_here) {
  const int64_t spare = usable_cores().count / ranks_here - (device.torch_device().is_cpu() ? 0 : 1);
  return std::clamp<int64_t>(spare, 1, kMostWorkers);
}

// 0: no bound.
int64_t prefetch_bytes(const Budget& asked, const Device& device, int64_t ranks_here) {
  switch (asked.kind) {
    case Budget::Kind::kBytes: return asked.bytes;
    case Budget::Kind::kShare:
      return static_cast<int64_t>(asked.share * static_cast<double>(device.budget_bytes()));
    case Budget::Kind::kAuto: break;
  }
  if (device.torch_device().is_cpu()) return 0;
  return tightest(memory_bounds(ResourceLimits::of_this_process())).available_bytes() / (8 * ranks_here);
}

std::string describe(const DatasetInfo& info) {
  std::string inputs;
  for (const InputInfo& input : info.inputs) inputs += cat(inputs.empty() ? " (" : ", ", input.name);
  if (!inputs.empty()) inputs += ")";
  return cat("samples of ", shape_text(info.input_shape), inputs, " with ", info.classes,
             " classes or numbers to predict");
}

// Whether a model for samples of the one size takes those of the other.
bool fits_in(const DatasetInfo& validation, const DatasetInfo& train) {
  if (train.kind == DatasetInfo::Kind::kVectors) return validation.input_shape == train.input_shape;
  if (train.kind == DatasetInfo::Kind::kTokens) {
    return validation.kind == train.kind && validation.input_shape[0] <= train.input_shape[0];
  }
  // Images may be larger than those that a model was built for, but have as many channels.
  const bool images = train.kind == DatasetInfo::Kind::kImages && validation.kind == train.kind;
  return !images || validation.input_shape[0] == train.input_shape[0];
}

// What the data set doubts of its files without reading them again; `autotrain data` reads all of them. What
// would end the run when it came to it ends it before.
void tell_doubts(const DatasetPlace& place, const Dataset& data, const Dataset* training) {
  const DataLook look = look_at(place, data, training, {.depth = LookDepth::kStart});
  const auto ends = [&](const Doubt& doubt) { return doubt.stops && !place.skips_bad; };
  for (const Doubt& doubt : look.doubts) {
    if (!ends(doubt)) log::warn("data", warning_of(doubt));
  }
  const auto end = std::ranges::find_if(look.doubts, ends);
  if (end == look.doubts.end()) return;
  throw Error(ExitCode::kBadData, end->places.empty() ? "data" : end->places.front(), in_words(*end),
              end->cure);
}

std::shared_ptr<const Balance> balance_of_run(const Recipe& recipe, const DatasetPlace& place,
                                              const Dataset& train) {
  auto balance = make_balance(place, train, static_cast<uint64_t>(recipe.seed));
  if (balance == nullptr || recipe.data.shuffle) return balance;
  throw Error(ExitCode::kBadRecipe, "data.shuffle",
              "is false, and data.train.balance draws samples in random order", "set data.shuffle: true");
}

// The model is built for the training samples; it must be able to take the others too.
void check_alike(const DatasetInfo& train, const DatasetInfo& other, const char* key) {
  if (fits_in(other, train) && inputs_alike(other.inputs, train.inputs) && other.classes <= train.classes &&
      other.vocabulary <= train.vocabulary)
    return;
  throw Error(ExitCode::kBadRecipe, key, cat("has ", describe(other), "; data.train has ", describe(train)),
              "give both the same keys");
}

// Two kinds of data sets number the classes each by its own files.
void check_names(const Choice& train, const Dataset& trained, const Choice& other, const Dataset& data,
                 const char* key) {
  if (train.name == other.name) return;
  const std::vector<std::string> expected = class_names_in(trained), names = class_names_in(data);
  const auto common = static_cast<std::ptrdiff_t>(std::min(expected.size(), names.size()));
  if (std::equal(names.begin(), names.begin() + common, expected.begin())) return;
  throw Error(ExitCode::kBadData, key,
              cat("has the classes ", join(names, ", "), "; data.train has ", join(expected, ", "),
                  ", and targets are numbers of them"),
              "give both the same names in the same order");
}

// The blocks that the model names by `autotrain::checkpoint`, and what they keep of some samples: nothing
// where memory does not suffice for keeping it.
std::pair<int64_t, std::optional<CheckpointedBytes>> count_blocks(Workbench& bench, const Batch& batch,
                                                                  int64_t most) {
  const BufferScope buffers(*bench.task);
  const CheckpointCount count(most);
  const AutocastScope autocast(bench.device->torch_device().type(), bench.precision);
  try {
    loss_terms(*bench.task, batch);
    return {count.bytes().blocks, count.bytes()};
  } catch (const std::exception& error) {
    if (classify_failure(error) == Failure::kOther || count.bytes().blocks == 0) throw;
    return {count.bytes().blocks, std::nullopt};
  }
}

std::string compute_again(const Recipe& recipe, Workbench& bench) {
  if (bench.task->makes_passes())
    throw Error(ExitCode::kBadRecipe, "execution.recompute",
                "is set, and the task makes its passes itself, which nothing computes again",
                "set it to off");
  const GeneratorScope generators(bench.device->torch_device());
  std::optional<Batch> batch = first_samples(*bench.device, *bench.data.train);
  if (!batch) return "";  // whoever needs the samples says why there are none
  if (bench.memory_format == MemoryFormat::kChannelsLast) batch->inputs = channels_last(batch->inputs);
  const int64_t most = recipe.execution.recompute_blocks.value_or(kAllBlocks);
  const auto [blocks, bytes_of_blocks] = count_blocks(bench, *batch, most);
  if (blocks > 0) {
    bench.step.set_recomputed_blocks(most);
    if (!bytes_of_blocks) return "the model's blocks, whose samples do not fit otherwise";
    return cat("of ", batch->samples, " samples, ", blocks, blocks == 1 ? " block" : " blocks",
               " would keep ", format_bytes(bytes_of_blocks->within),
               " for the backward pass, which computes them again from ",
               format_bytes(bytes_of_blocks->inputs));
  }
  auto* const network = dynamic_cast<Network*>(&bench.task->module());
  if (network == nullptr)
    throw Error(ExitCode::kBadRecipe, "execution.recompute",
                "is set, and this model names no blocks to compute again",
                "compute its parts by autotrain::checkpoint, or set it to off");
  const RecomputedBytes bytes = network->recompute(*batch, bench.precision);
  return cat("of ", format_bytes(bytes.before), " kept for the backward pass of ", batch->samples,
             " samples, ", format_bytes(bytes.before - bytes.kept), " are computed again by ",
             bytes.operators, " operators");
}

std::shared_ptr<HostMover> mover_for(const Workbench& bench) {
  constexpr const char* kWhere = "execution.offload";
  if (bench.task->makes_passes())
    throw Error(ExitCode::kBadRecipe, kWhere,
                "is true, and the task makes its passes itself, of which nothing is moved",
                "set it to false");
  std::shared_ptr<HostMover> mover = host_mover(bench.device->torch_device());
  if (mover == nullptr)
    throw Error(
        ExitCode::kBadRecipe, kWhere,
        "is true, and the device is a CPU, which computes in main memory: there is nowhere to move to",
        "set it to false; execution.recompute: auto needs less memory on any device");
  return mover;
}

// The norm of the gradients of these samples as the only lane of an update: of passes that the task makes,
// the bench's step waits for the other ranks, which have not met yet.
double learn_alone(Workbench& bench, const Batch& batch) {
  StepOptions options = bench.step.options();
  options.ranks = nullptr;
  options.lanes = 1;
  UpdateStep step(*bench.task, *bench.optimizer, bench.scaler, options);
  const WindowScope window(step);
  step.accumulate(batch, 0, 0);
  step.end_lanes();
  return norm_of_gradients(bench.task->module());
}

// What the files are that the recipe names, so that a resume can tell whether they still are. Where one
// cannot be read to its end that is not known; whoever needs it says so.
void note_files(const Recipe& recipe, RunData& data) {
  try {
    data.files = fingerprints_of_data(recipe.data.train);
    for (const auto& other : {recipe.data.validation, recipe.data.test}) {
      if (other) data.files.merge(fingerprints_of_data(*other));
    }
    if (recipe.weights.file) data.initial_weights = fingerprint_of_weights(*recipe.weights.file);
  } catch (const Error&) {}
}

// A model that is a file brings its weights.
void check_weights_of_file(const Recipe& recipe, const torch::nn::Module& module) {
  const auto file = recipe.model.parameters.find("file");
  if (file == recipe.model.parameters.end() || recipe.weights.file) return;
  if (const auto* const path = std::get_if<std::string>(&file->second))
    check_finite_parameters(module, *path);
}

}  // namespace

Loader::Options resolve_loader(const LoaderRecipe& asked, const Device& device, MemoryFormat format,
                               int64_t ranks_here) {
  const int64_t most = asked.workers.value_or(spare_cores(device, ranks_here));
  const int64_t prefetch = asked.prefetch.value_or(most == 0 ? 0 : std::max<int64_t>(2, most));
  return {.workers = std::min(asked.workers.value_or(1), prefetch),
          .prefetch = prefetch,
          .prefetch_bytes = prefetch_bytes(asked.prefetch_memory, device, ranks_here),
          .pin = !device.torch_device().is_cpu(),
          .channels_last = format == MemoryFormat::kChannelsLast};
}

std::unique_ptr<Device> open_run_device(const Recipe& recipe, std::optional<ResolvedBudget> settled,
                                        const Place& place) {
  const ExecutionRecipe& e = recipe.execution;
  const int64_t share_of_cores = std::max<int64_t>(1, usable_cores().count / place.local_world);
  auto device = open_device({.device = e.device,
                             .budget = e.memory.budget,
                             .settled = std::move(settled),
                             .threads = e.threads.value_or(share_of_cores),
                             .deterministic = e.deterministic,
                             .local_rank = place.local_rank,
                             .ranks_here = place.local_world});
  device->memory().set_limit(device->budget_bytes());
  return device;
}

RunData load_data(const Recipe& recipe, Device& device) {
  const PhaseScope phase(MemoryPhase::kData);
  RunData data{.from_recipe = true};
  const auto load = [&](const DatasetPlace& place, const char* key) -> const Dataset* {
    std::unique_ptr<Dataset> dataset = make_dataset(place);
    tell_doubts(place, *dataset, data.train);
    if (place.training == nullptr) {
      data.balance = balance_of_run(recipe, place, *dataset);
      close_samples(recipe, *dataset);
    }
    preload(*dataset, key, recipe, device);
    if (recipe.data.bad_samples == BadSamples::kSkip) {
      auto skipping = std::make_unique<SkippingDataset>(std::move(dataset));
      data.skipping.push_back(skipping.get());
      dataset = std::move(skipping);
    }
    return data.owned.emplace_back(std::move(dataset)).get();
  };
  data.train = load(training_place(recipe), "data.train");
  note_files(recipe, data);
  if (recipe.data.validation) {
    data.validation = load(validation_place(recipe), "data.validation");
    check_alike(data.train->info(), data.validation->info(), "data.validation");
    check_names(recipe.data.train, *data.train, *recipe.data.validation, *data.validation, "data.validation");
  }
  if (recipe.data.test) {
    check_test_data(recipe);
    data.test = load(test_place(recipe), "data.test");
    check_alike(data.train->info(), data.test->info(), "data.test");
    check_names(recipe.data.train, *data.train, *recipe.data.test, *data.test, "data.test");
  }
  return data;
}

std::unique_ptr<Task> build_task(const Recipe& recipe, const DatasetInfo& train) {
  const PhaseScope phase(MemoryPhase::kModel);
  seed_generators(torch::kCPU,
                  derive_key(static_cast<uint64_t>(recipe.seed), static_cast<uint64_t>(RandomUse::kWeights)));
  auto network = make_model(recipe.model, {.input = train.input_shape,
                                           .classes = train.classes,
                                           .vocabulary = train.vocabulary,
                                           .inputs = train.inputs,
                                           .input_is_number = train.input_is_number,
                                           .target_is_number = train.target_is_number});
  const std::optional<CompressedWeights> pruned = pruned_by_file(recipe.weights);
  if (pruned) take_pruned_shapes(*pruned, *network);
  network->freeze(recipe.freeze);
  network->adapt(recipe.lora);
  if (pruned) keep_pruned_zeros(*pruned, *network);
  Loss loss = make_loss(recipe.loss, recipe.evaluation.metrics);
  if (recipe.loss.name == kModelsOwnLoss)
    return make_task_with_own_loss(std::move(network), std::move(loss.metrics));
  if (network->has_own_loss()) {
    throw Error(ExitCode::kBadRecipe, "loss.name",
                cat("is ", recipe.loss.name, ", and the model computes its loss itself"),
                "set loss: {name: model}, or take a module without its loss");
  }
  const auto* const mixture = dynamic_cast<const Mixture*>(network.get());
  if (mixture != nullptr && mixture->expert_options().experts > 0)
    return make_mixture_task(std::move(network), recipe.loss, std::move(loss));
  Network* const raw = network.get();
  return make_supervised_on_batches(
      std::move(network), [raw](const Batch& batch) { return raw->predict(batch); }, std::move(loss));
}

Materials load_materials(const Recipe& recipe, std::optional<ResolvedBudget> settled,
                         std::shared_ptr<Ranks> ranks) {
  const Place place = ranks ? ranks->place() : Place();
  Materials m{.device = open_run_device(recipe, std::move(settled), place), .ranks = std::move(ranks)};
  m.data = within_budget(*m.device, [&] { return load_data(recipe, *m.device); });
  m.task = within_budget(*m.device, [&] { return build_task(recipe, m.data.train->info()); });
  check_weights_of_file(recipe, m.task->module());
  return m;
}

void set_recompute(const Recipe& recipe, Workbench& bench, bool on) {
  if (on == bench.recomputes) return;
  if (on) {
    const std::string what = compute_again(recipe, bench);
    if (what.empty()) return;
    log::info("plan", "recompute: " + what);
  } else {
    bench.step.set_recomputed_blocks(0);
    if (auto* const network = dynamic_cast<Network*>(&bench.task->module())) network->keep();
  }
  bench.recomputes = on;
}

std::unique_ptr<Workbench> assemble(const Recipe& recipe, Materials materials) {
  const Precision precision =
      resolve_precision(recipe.execution.precision, *materials.device, materials.task->module());
  check_trains(precision);
  set_products(precision, *materials.device);
  auto bench = std::make_unique<Workbench>(recipe, std::move(materials.device), std::move(materials.data),
                                           std::move(materials.task), precision, std::move(materials.ranks),
                                           materials.make_optimizer);
  // The module takes a memory format if it also learns with it, whatever other ranks have.
  const auto learn = [&](const Batch& batch) {
    if (bench->task->makes_passes()) return learn_alone(*bench, batch);
    const WindowScope window(bench->step);
    bench->step.accumulate(batch, 0, 0);
    return norm_of_gradients(bench->task->module());
  };
  bench->memory_format =
      resolve_memory_format(recipe, precision, *bench->device, *bench->task, *bench->data.train, learn);
  if (recipe.execution.offload) bench->step.set_mover(mover_for(*bench));
  if (recipe.execution.recompute == Recompute::kOn) set_recompute(recipe, *bench, true);
  const LoaderRecipe& asked = recipe.execution.loader;
  const int64_t ranks_here = bench->ranks->place().local_world;
  bench->loader = resolve_loader(asked, *bench->device, bench->memory_format, ranks_here);
  bench->most_workers = asked.workers
                            ? bench->loader.workers
                            : std::min(spare_cores(*bench->device, ranks_here), bench->loader.prefetch);
  check_own_loss(*bench);
  check_other_samples(*bench);
  return bench;
}

}  // namespace autotrain
