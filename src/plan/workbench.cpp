#include "plan/workbench.h"

#include <numeric>

#include "base/text.h"
#include "base/units.h"
#include "data/cost_order.h"
#include "device/failure.h"
#include "device/memory_phase.h"
#include "optim/decay.h"
#include "plan/memory_statement.h"
#include "step/precision.h"

namespace autotrain {
namespace {

// The part of the parameters that this rank updates; nothing: all of all.
std::optional<std::vector<TensorPiece>> own_pieces(const Recipe& recipe,
                                                   const std::vector<NamedTensor>& parameters,
                                                   const Place& place) {
  if (recipe.execution.shard == Sharding::kNone) return std::nullopt;
  const OptimizerRow& optimizer = find_optimizer(recipe.optimizer.algorithm.name);
  if (optimizer.whole_tensors) {
    throw Error(
        ExitCode::kBadRecipe, "execution.shard",
        cat(optimizer.spec.name, " needs the norms of whole tensors, of which a rank would have a part"),
        "set execution.shard: none, or take an optimizer that goes element by element, such as adamw");
  }
  if (place.world == 1) return std::nullopt;
  for (const NamedTensor& each : parameters) {
    if (each.tensor.is_non_overlapping_and_dense()) continue;
    throw Error(
        ExitCode::kBadRecipe, "execution.shard",
        cat("the parameter ", each.name, " is a view of something larger, which cannot be shared out"),
        "set execution.shard: none");
  }
  return FlatLayout(parameters, place.world).pieces_of(place.rank);
}

// Decided by the recipe, not by the number of ranks, on which a run's numbers do not depend.
bool whole_optimizer(const Recipe& recipe) {
  return recipe.execution.shard == Sharding::kNone;
}

std::unique_ptr<Optimizer> make_run_optimizer(const Recipe& recipe, Task& task, Device& device,
                                              const Place& place, const MakeOptimizer& make_own) {
  return within_budget(device, [&] {
    {
      const PhaseScope phase(MemoryPhase::kModel);
      task.module().to(device.torch_device());
    }
    const PhaseScope phase(MemoryPhase::kOptimizer);
    std::vector<NamedTensor> parameters = trainable_parameters(task.module());
    if (make_own) {
      std::vector<size_t> all(parameters.size());
      std::iota(all.begin(), all.end(), size_t{0});
      return make_own({.parameters = std::move(parameters), .groups = {{.name = "all", .parameters = all}}});
    }
    auto pieces = own_pieces(recipe, parameters, place);
    std::vector<bool> decayed = decayed_by_rule(task.module(), parameters);
    return make_optimizer(
        recipe.optimizer,
        {.parameters = std::move(parameters), .pieces = std::move(pieces), .decayed = std::move(decayed)});
  });
}

WeightAverage make_average(const Recipe& recipe, Task& task, Device& device) {
  if (!recipe.average.half_life) return {};
  return within_budget(device, [&] {
    const PhaseScope phase(MemoryPhase::kOptimizer);
    return WeightAverage(averaged_parts(task.module()), static_cast<double>(*recipe.average.half_life));
  });
}

Lanes own_lanes(const Recipe& recipe, const Place& place) {
  const int64_t lanes = recipe.execution.lanes.value_or(place.world);
  if (lanes != place.world && !shares_lanes(lanes, place.world)) {
    throw Error(ExitCode::kBadRecipe, "execution.lanes",
                cat(lanes, " lanes cannot be shared by ", place.world, place.world == 1 ? " rank" : " ranks"),
                "powers of two share a power of two that is not smaller; or leave execution.lanes at auto");
  }
  const int64_t each = lanes / place.world;
  return {.of = lanes, .first = place.rank * each, .count = each};
}

}  // namespace

Workbench::Workbench(const Recipe& recipe, std::unique_ptr<Device> run_device, RunData run_data,
                     std::unique_ptr<Task> run_task, Precision run_precision,
                     std::shared_ptr<Ranks> run_ranks, const MakeOptimizer& make_own)
    : device(std::move(run_device)),
      data(std::move(run_data)),
      task(std::move(run_task)),
      precision(run_precision),
      ranks(run_ranks ? std::move(run_ranks) : std::make_shared<Ranks>()),
      lanes(own_lanes(recipe, ranks->place())),
      timeline(device->torch_device()),
      optimizer(make_run_optimizer(recipe, *task, *device, ranks->place(), make_own)),
      scaler(recipe.execution.scaler, scales_loss(precision), device->torch_device()),
      average(make_average(recipe, *task, *device)),
      step(*task, *optimizer, scaler,
           {.device = device->torch_device(),
            .precision = precision,
            .clip_norm = recipe.optimizer.clip_norm,
            .seed = static_cast<uint64_t>(recipe.seed),
            .ranks = ranks.get(),
            .lanes = lanes.count,
            .statistics = may_measure_noise(recipe, *data.train),
            .preconditioned_norms = may_measure_noise(recipe, *data.train) && whole_optimizer(recipe),
            .input_scale = {.share = recipe.data.augment.multi_scale,
                            .seed = static_cast<uint64_t>(recipe.seed)},
            .timeline = &timeline},
           &average),
      stream(static_cast<uint64_t>(recipe.seed), data.train->size(), recipe.data.shuffle, data.balance) {}

bool may_measure_noise(const Recipe& recipe, const Dataset& train) {
  return recipe.execution.statistics != Statistics::kOff && !has_costs(train);
}

bool has_parts(const WindowCut& cut) {
  return cut.lanes.of > 1 || cut.most_pieces() > 1;
}

void fail_loading(const std::exception& error, Device& device) {
  if (classify_failure(error) == Failure::kOther) throw;
  const std::optional<Refusal> refusal = device.memory().last_refusal();
  const std::string budget = format_bytes(device.budget_bytes());
  const bool short_of_memory = refusal && refusal->by_system;
  if (short_of_memory && !device.torch_device().is_cpu()) {
    throw Error(ExitCode::kDoesNotFit, "execution.device",
                cat("the data set and the model with its optimizer need at least ",
                    format_bytes(refusal->total_bytes()), ", which the budget of ", budget,
                    " allows and the device does not have", describe(*refusal)),
                "end other processes that use the device, use another one, less data, or a smaller model");
  }
  const int64_t least = refusal && !short_of_memory ? refusal->total_bytes() : 0;
  throw Error(ExitCode::kDoesNotFit, "execution.memory.budget",
              cat("the data set and the model with its optimizer need ",
                  least > 0 ? cat("at least ", format_bytes(least), ", more") : "more", " than the ", budget,
                  " of the budget", refusal ? describe(*refusal) : ": " + first_line(error)),
              cat("raise execution.memory.budget", least > 0 ? cat(" above ", format_bytes(least)) : "",
                  ", use less data, or a smaller model"));
}

}  // namespace autotrain
