#include "trainer/snapshot.h"

#include <unordered_map>

#include "autotrain/error.h"
#include "plan/plan_json.h"

namespace autotrain {

std::vector<NamedTensor> model_tensors(const torch::nn::Module& module) {
  std::vector<NamedTensor> tensors;
  for (const auto& item : module.named_parameters()) tensors.push_back({item.key(), item.value()});
  for (const auto& item : module.named_buffers()) tensors.push_back({item.key(), item.value()});
  return tensors;
}

namespace {

std::vector<NamedTensor> optimizer_tensors(const Workbench& bench) {
  std::vector<NamedTensor> tensors = bench.optimizer->state();
  for (const NamedTensor& value : bench.scaler.state())
    tensors.push_back({"scaler." + value.name, value.tensor});
  return tensors;
}

// The model with averages in the place of what is trained, so that it can be loaded as the model is.
std::vector<NamedTensor> averaged_tensors(const Workbench& bench) {
  if (!bench.average.active()) return {};
  std::vector<NamedTensor> tensors = model_tensors(bench.task->module());
  const std::vector<NamedTensor> averages = bench.average.state();
  const std::vector<NamedTensor>& trained = bench.optimizer->parameters();
  std::unordered_map<const void*, torch::Tensor> average_of;
  for (size_t i = 0; i < trained.size(); ++i) {
    average_of[trained[i].tensor.unsafeGetTensorImpl()] = averages[i].tensor;
  }
  for (NamedTensor& item : tensors) {
    const auto average = average_of.find(item.tensor.unsafeGetTensorImpl());
    if (average != average_of.end()) item.tensor = average->second;
  }
  return tensors;
}

}  // namespace

TensorLists live_tensors(const Workbench& bench) {
  return {model_tensors(bench.task->module()), optimizer_tensors(bench), averaged_tensors(bench)};
}

CheckpointContent checkpoint_content(const Workbench& bench, const SavedRun& run) {
  CheckpointContent content{live_tensors(bench), {}};
  content.state = {{"format", 1},
                   {"run", run.state.to_json()},
                   {"plan", plan_to_json(run.plan)},
                   {"identity", run.identity},
                   {"recipe", run.recipe}};
  return content;
}

void load_tensors(const CheckpointFolder& checkpoints, int64_t update, Workbench& bench) {
  checkpoints.read_tensors(update, live_tensors(bench));
  if (!checkpoints.holds_averages(update)) bench.average.restart();
}

SavedRun saved_run(const nlohmann::ordered_json& state) {
  try {
    return {RunState::from_json(state.at("run")), plan_from_json(state.at("plan")),
            state.at("recipe").get<std::string>(), state.at("identity").get<Identity>()};
  } catch (const nlohmann::json::exception& error) {
    throw Error(ExitCode::kBadData, "state.json", error.what(), "use another checkpoint");
  }
}

}  // namespace autotrain
