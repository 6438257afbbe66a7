#include "trainer/snapshot.h"

#include <unordered_map>

#include "autotrain/error.h"
#include "base/text.h"
#include "plan/plan_json.h"

namespace autotrain {
namespace {

std::vector<NamedTensor> model_tensors(const torch::nn::Module& module) {
  std::vector<NamedTensor> tensors;
  for (const auto& item : module.named_parameters()) tensors.push_back({item.key(), item.value()});
  for (const auto& item : module.named_buffers()) tensors.push_back({item.key(), item.value()});
  return tensors;
}

std::vector<NamedTensor> optimizer_tensors(const Parts& parts) {
  std::vector<NamedTensor> tensors = parts.optimizer->state();
  for (const NamedTensor& value : parts.scaler.state())
    tensors.push_back({"scaler." + value.name, value.tensor});
  return tensors;
}

constexpr size_t kMostNamed = 8;

std::string name_list(const std::vector<std::string>& names) {
  if (names.size() <= kMostNamed) return join(names, ", ");
  return cat(join({names.begin(), names.begin() + kMostNamed}, ", "), " and ", names.size() - kMostNamed,
             " more");
}

void copy_all(const std::string& what, const std::vector<NamedTensor>& saved,
              const std::vector<NamedTensor>& live) {
  const torch::NoGradGuard no_gradients;
  std::unordered_map<std::string, torch::Tensor> by_name;
  for (const NamedTensor& item : saved) by_name.emplace(item.name, item.tensor);
  std::vector<std::string> missing, reshaped;
  for (const NamedTensor& item : live) {
    const auto found = by_name.find(item.name);
    if (found == by_name.end()) {
      missing.push_back(item.name);
    } else if (found->second.sizes() != item.tensor.sizes()) {
      reshaped.push_back(cat(item.name, " ", found->second.sizes(), " → ", item.tensor.sizes()));
    }
  }
  std::unordered_map<std::string, torch::Tensor> extra = by_name;
  for (const NamedTensor& item : live) extra.erase(item.name);
  std::vector<std::string> left_over;
  for (const auto& [name, tensor] : extra) left_over.push_back(name);
  if (!missing.empty() || !reshaped.empty() || !left_over.empty()) {
    std::string text = "does not match the " + what + " of this recipe";
    if (!missing.empty()) text += "\n  not in the checkpoint: " + name_list(missing);
    if (!left_over.empty()) text += "\n  only in the checkpoint: " + name_list(left_over);
    if (!reshaped.empty()) text += "\n  of another shape: " + name_list(reshaped);
    throw Error(ExitCode::kBadData, "checkpoint", text,
                "resume with the recipe that made it, or start a new run");
  }
  for (const NamedTensor& item : live) {
    torch::Tensor tensor = item.tensor;
    tensor.copy_(by_name.at(item.name));
  }
}

}  // namespace

CheckpointContent gather(const Parts& parts, const SavedRun& run) {
  CheckpointContent content{model_tensors(parts.task->module()), optimizer_tensors(parts), {}};
  content.state = {
      {"format", 1}, {"run", run.state.to_json()}, {"plan", plan_to_json(run.plan)}, {"recipe", run.recipe}};
  return content;
}

void restore(const CheckpointContent& content, Parts& parts) {
  copy_all("model", content.model, model_tensors(parts.task->module()));
  copy_all("optimizer", content.optimizer, optimizer_tensors(parts));
}

SavedRun saved_run(const CheckpointContent& content) {
  try {
    return {RunState::from_json(content.state.at("run")), plan_from_json(content.state.at("plan")),
            content.state.at("recipe").get<std::string>()};
  } catch (const nlohmann::json::exception& error) {
    throw Error(ExitCode::kBadData, "state.json", error.what(), "use another checkpoint");
  }
}

}  // namespace autotrain
