#include "state/identity.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/text.h"
#include "base/version.h"
#include "data/fingerprint.h"
#include "data/loader.h"
#include "model/models.h"
#include "plan/planner.h"
#include "recipe/compare.h"
#include "state/catalog.h"
#include "state/data_files.h"

namespace autotrain {
namespace {

constexpr const char *kDeterministic = "deterministic", *kModelFile = "model's file",
                     *kTraining = "training data", *kValidation = "validation data", *kDraws = "draws",
                     *kInitialWeights = "initial weights";

// Whether samples, or what the model makes of them, are others where the fact is another.
bool is_of_data(const std::string& fact) {
  return fact == kTraining || fact == kValidation || fact == kDraws || fact == kModelFile ||
         !file_of_fact(fact).empty();
}

// The number of ranks counts no more than that of the lanes that they share, but for buffers of their own.
std::string ranks_in_words(const BatchPlan& plan, bool own_buffers) {
  if (plan.lanes == 1) return "1";
  return cat(own_buffers ? std::to_string(plan.world_size) : "any number", " with ", plan.lanes, " lanes");
}

// The size of a data set, and a number that its first and last sample come to.
std::string fingerprint(const Dataset* data) {
  if (data == nullptr) return "none";
  const int64_t size = data->size();
  Loader loader(*data, Stream(0, size, /*shuffle=*/false),
                repeated({consecutive(0, 1), consecutive(size - 1, 1)}), {.prefetch = 0});
  size_t hash = 0;
  for (int sample = 0; sample < 2; ++sample) {
    const Batch batch = *loader.next();
    for (const torch::Tensor& tensor : batch.tensors()) {
      const torch::Tensor dense = tensor.to(torch::kCPU).contiguous();
      const std::string_view bytes(static_cast<const char*>(dense.const_data_ptr()), dense.nbytes());
      hash = 31 * hash + std::hash<std::string_view>()(bytes);
    }
  }
  return cat(size, " samples, whose first and last come to ", hash);
}

std::string fingerprint(const torch::nn::Module& module) {
  const Network* const network = as_network(module);
  return network != nullptr ? network->fingerprint() : "";
}

}  // namespace

Identity identity_of(const Workbench& bench, const BatchPlan& plan) {
  const Device& device = *bench.device;
  const torch::nn::Module& module = bench.task->module();
  const bool own_buffers = has_batch_norm(module);
  Identity identity = {{"autotrain", version()},
                       {"device", device.name()},
                       {"software", device.software()},
                       {"instructions", at::get_cpu_capability()},
                       {"threads", std::to_string(at::get_num_threads())},
                       {kDeterministic, at::globalContext().deterministicAlgorithms() ? "yes" : "no"},
                       {"precision", to_string(plan.precision)},
                       {"memory format", to_string(plan.memory_format)},
                       {"ranks", ranks_in_words(plan, own_buffers)},
                       {"micro-batch", std::to_string(plan.micro_batch)},
                       {"micro-batch of evaluations", std::to_string(plan.evaluation_micro_batch)}};
  const std::string model = fingerprint(module);
  if (!model.empty()) identity[kModelFile] = model;
  identity[kTraining] = cat(bench.data.train->size(), " samples");
  if (bench.data.validation != nullptr)
    identity[kValidation] = cat(bench.data.validation->size(), " samples");
  if (bench.data.balance) identity[kDraws] = cat("weights that come to ", bench.data.balance->fingerprint());
  for (const auto& [path, fingerprint] : bench.data.files) identity[fact_of_file(path)] = fingerprint;
  if (!bench.data.initial_weights.empty()) identity[kInitialWeights] = bench.data.initial_weights;
  return identity;
}

Identity facts_of_rank(const Recipe& recipe, const Workbench& bench) {
  Identity facts = {
      {"the version of autotrain", version()},
      {"the software", bench.device->software()},
      {"the instruction set", at::get_cpu_capability()},
      {"the number of threads", std::to_string(at::get_num_threads())},
      {"the kind of device", bench.device->torch_device().is_cpu() ? "CPU" : bench.device->name()},
      {"the precision", to_string(bench.precision)},
      {"the memory format", to_string(bench.memory_format)},
      {"the model's file", fingerprint(bench.task->module())},
      {"the training data", fingerprint(bench.data.train)},
      {"how often samples are drawn",
       bench.data.balance ? std::to_string(bench.data.balance->fingerprint()) : "once"},
      {"the validation data", fingerprint(bench.data.validation)},
      {"the test data", fingerprint(bench.data.test)}};
  for (const KeyValue& key : key_values(recipe, catalog())) facts.emplace(key.path, key.value);
  return facts;
}

void check_model_file(const Identity& trained, const torch::nn::Module& module) {
  if (model_file_in(trained) == fingerprint(module)) return;
  if (const Network* const network = as_network(module); network != nullptr && network->is_users_own()) {
    log::warn(
        "model",
        "the program was built again since it trained the run: what its model computes now is taken for "
        "what it computed then");
    return;
  }
  throw Error(ExitCode::kBadData, "model.file", "is not the file that the run was trained with",
              "put that file back, or name it: --set model.file=…");
}

namespace {

std::string change_of(const std::string& fact, const std::string& value, const std::string& former) {
  if (fact == kDraws)
    return "the classes or weights by which samples are drawn have changed since the checkpoint was written, "
           "and with them what epochs hold";
  if (fact == kModelFile) return "the model's file is another than when the checkpoint was written";
  if (const std::string file = file_of_fact(fact); !file.empty())
    return cat(file, " is ", value, ", and was ", former, " when the checkpoint was written");
  return cat("the ", fact, " have ", value, ", and had ", former, " when the checkpoint was written");
}

}  // namespace

std::vector<std::string> changes_of_data(const Identity& before, const Identity& now) {
  std::vector<std::string> changes;
  for (const auto& [fact, value] : now) {
    const auto former = before.find(fact);
    if (!is_of_data(fact) || former == before.end() || former->second == value) continue;
    changes.push_back(change_of(fact, value, former->second));
  }
  return changes;
}

bool validates_on_others(const Identity& before, const Identity& now, const Recipe& recipe) {
  const auto differs = [&](const std::string& fact) {
    const auto then = before.find(fact), later = now.find(fact);
    return then != before.end() && later != now.end() && then->second != later->second;
  };
  if (differs(kValidation)) return true;
  // Which files are those of the validation data is asked only where one differs: it takes reading them.
  const bool any = std::ranges::any_of(files_in(now), [&](const auto& file) { return differs(file.first); });
  if (!any || !recipe.data.validation) return false;
  return std::ranges::any_of(fingerprints_of_data(*recipe.data.validation),
                             [&](const auto& file) { return differs(fact_of_file(file.first)); });
}

std::string model_file_in(const Identity& identity) {
  const auto file = identity.find(kModelFile);
  return file == identity.end() ? "" : file->second;
}

std::string initial_weights_in(const Identity& identity) {
  const auto file = identity.find(kInitialWeights);
  return file == identity.end() ? "" : file->second;
}

bool has_other_initial_weights(const Identity& before, const Identity& now) {
  const std::string then = initial_weights_in(before), later = initial_weights_in(now);
  return !then.empty() && !later.empty() && then != later;
}

std::string exactness(const Identity& before, const Identity& now) {
  if (!changes_of_data(before, now).empty()) return "with other data than it was begun with";
  std::vector<std::string> reasons;
  for (const auto& [fact, value] : now) {
    if (is_of_data(fact) || fact == kInitialWeights) continue;  // which a checkpoint stands in the place of
    const auto former = before.find(fact);
    const std::string was = former == before.end() ? "unknown" : former->second;
    if (was != value) reasons.push_back(cat(fact, " is ", value, ", was ", was));
  }
  if (reasons.empty() && now.at(kDeterministic) != "yes") {
    reasons.push_back("execution.deterministic is off");
  }
  return reasons.empty() ? "exact" : "equal to rounding, because " + join(reasons, "; ");
}

}  // namespace autotrain
