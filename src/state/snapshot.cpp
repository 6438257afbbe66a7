#include "state/snapshot.h"

#include <unordered_map>

#include "base/json.h"
#include "base/text.h"
#include "checkpoint/safetensors.h"
#include "plan/plan_json.h"

namespace autotrain {

std::vector<NamedTensor> model_tensors(const torch::nn::Module& module) {
  std::vector<NamedTensor> tensors;
  for (const auto& item : module.named_parameters()) tensors.push_back({item.key(), item.value()});
  for (const auto& item : module.named_buffers()) tensors.push_back({item.key(), item.value()});
  return tensors;
}

std::vector<NamedTensor> task_tensors(Task& task) {
  std::vector<NamedTensor> tensors = task.state();
  for (NamedTensor& each : tensors) each.name = "task." + each.name;
  return tensors;
}

namespace {

void add_scaler(std::vector<NamedTensor>& tensors, const Workbench& bench) {
  for (const NamedTensor& value : bench.scaler.state())
    tensors.push_back({"scaler." + value.name, value.tensor});
}

void add_task_tensors(std::vector<NamedTensor>& tensors, const Workbench& bench) {
  for (NamedTensor& value : task_tensors(*bench.task)) tensors.push_back(std::move(value));
}

std::vector<NamedTensor> optimizer_tensors(Workbench& bench) {
  const Shard* const shard = bench.step.shard();
  std::vector<NamedTensor> tensors = shard != nullptr ? shard->state() : bench.optimizer->state();
  add_scaler(tensors, bench);
  add_task_tensors(tensors, bench);
  return tensors;
}

// Those of optimizer and scaler that every rank has alike.
std::vector<NamedTensor> common_optimizer_tensors(const Workbench& bench) {
  std::vector<NamedTensor> tensors =
      bench.optimizer->sharded() ? bench.optimizer->scalars() : bench.optimizer->state();
  add_scaler(tensors, bench);
  add_task_tensors(tensors, bench);
  return tensors;
}

// The model with averages in the place of what is averaged, so that it can be loaded as the model is.
std::vector<NamedTensor> averaged_tensors(const Workbench& bench) {
  if (!bench.average.active()) return {};
  std::vector<NamedTensor> tensors = model_tensors(bench.task->module());
  const std::vector<NamedTensor> averages = bench.average.state();
  const std::vector<NamedTensor>& live = bench.average.live();
  std::unordered_map<const void*, torch::Tensor> average_of;
  for (size_t i = 0; i < live.size(); ++i)
    average_of[live[i].tensor.unsafeGetTensorImpl()] = averages[i].tensor;
  for (NamedTensor& item : tensors) {
    const auto average = average_of.find(item.tensor.unsafeGetTensorImpl());
    if (average != average_of.end()) item.tensor = average->second;
  }
  return tensors;
}

// Gives the tensors what the first rank's hold, by way of the device that ranks exchange on. All memory is
// had before any rank waits for another.
void take_from_first(const std::vector<NamedTensor>& tensors, Ranks& ranks, torch::Device device) {
  if (!ranks.several()) return;
  const torch::NoGradGuard no_gradients;
  std::vector<torch::Tensor> dense;  // the tensors themselves where they are
  for (const NamedTensor& item : tensors) dense.push_back(item.tensor.detach().to(device).contiguous());
  ranks.meet({});
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (dense[i].numel() > 0) ranks.exchange().copy_from_first(dense[i]);
    if (!dense[i].is_alias_of(tensors[i].tensor)) tensors[i].tensor.detach().copy_(dense[i]);
  }
}

}  // namespace

TensorLists live_tensors(Workbench& bench) {
  return {model_tensors(bench.task->module()), optimizer_tensors(bench), averaged_tensors(bench)};
}

std::filesystem::path evaluated_weights(const std::filesystem::path& checkpoint) {
  const std::filesystem::path averaged = checkpoint / "averaged.safetensors";
  return std::filesystem::exists(averaged) ? averaged : checkpoint / "model.safetensors";
}

CheckpointContent checkpoint_content(Workbench& bench, const SavedRun& run) {
  return {live_tensors(bench), state_to_json(run)};
}

nlohmann::ordered_json state_to_json(const SavedRun& run) {
  return {{"format", 1},
          {"run", run.state.to_json()},
          {"plan", plan_to_json(run.plan)},
          {"identity", run.identity},
          {"recipe", exact_text(run.recipe)}};
}

void share_tensors(Workbench& bench, bool loaded) {
  // The state of a sharded optimizer lies where the others are not copied to: it goes first.
  Shard* const shard = bench.step.shard();
  if (shard != nullptr && loaded) {
    bench.ranks->meet({});
    shard->take_state();
  }
  for (const auto& list :
       {model_tensors(bench.task->module()), common_optimizer_tensors(bench), averaged_tensors(bench)})
    take_from_first(list, *bench.ranks, bench.device->torch_device());
  if (bench.ranks->several()) bench.optimizer->take_state();
}

void gather_state(Workbench& bench) {
  Shard* const shard = bench.step.shard();
  if (shard == nullptr) return;
  bench.ranks->meet({});
  shard->gather_state();
}

void share_buffers(Workbench& bench) {
  std::vector<NamedTensor> buffers;
  for (const auto& item : bench.task->module().named_buffers()) buffers.push_back({item.key(), item.value()});
  if (!buffers.empty()) take_from_first(buffers, *bench.ranks, bench.device->torch_device());
}

void load_tensors(const CheckpointFolder& checkpoints, int64_t update, Workbench& bench) {
  checkpoints.read_tensors(update, live_tensors(bench));
  std::vector<std::string> saved;
  for (const TensorEntry& entry : list_safetensors(checkpoints.path_of(update) / "optimizer.safetensors"))
    saved.push_back(entry.name);
  bench.optimizer->reorder(saved);
  bench.optimizer->take_state();
  if (!checkpoints.holds_averages(update)) bench.average.restart();
}

namespace {

// The numbers that a run divides by and loops over, which no search ends without.
void check_plan(const BatchPlan& plan, const std::string& where) {
  struct Number {
    const char* name;
    int64_t value, least;
  };
  for (const Number& number : {Number{"micro_batch", plan.micro_batch, 1},
                               {"effective_batch", plan.effective_batch, 1},
                               {"window", plan.window, 1},
                               {"lanes", plan.lanes, 1},
                               {"world_size", plan.world_size, 1},
                               {"evaluation_micro_batch", plan.evaluation_micro_batch, 0}}) {
    if (number.value < number.least)
      throw broken_state(where, cat("plan: ", number.name, " is ", number.value, ", and at least ",
                                    number.least, " in any plan"));
  }
  if (plan.loss_factor <= 0)
    throw broken_state(where, cat("plan: loss_factor is ", plan.loss_factor, ", and positive in any plan"));
}

}  // namespace

SavedRun saved_run(const nlohmann::ordered_json& state, const std::string& where) {
  SavedRun run;
  const char* part = "run";
  try {
    run.state = RunState::from_json(state.at(part), where);
    run.plan = plan_from_json(state.at(part = "plan"));
    run.recipe = read_exact_text(state.at(part = "recipe"));
    run.identity = state.at(part = "identity").get<Identity>();
  } catch (const nlohmann::json::exception& error) {
    throw broken_state(where, part, error);
  }
  check_plan(run.plan, where);
  Position& position = run.state.position;
  if (position.effective == 0 && position.updates > 0) {  // of a version in which batches did not change
    position.effective = run.plan.effective_batch;
    position.learned = position.updates * position.effective;
  }
  return run;
}

Retention retention_of(const Recipe& recipe) {
  return {recipe.checkpoint.keep, [](const nlohmann::ordered_json& state) {
            return state.at("run").at("best_update").get<int64_t>();
          }};
}

}  // namespace autotrain
