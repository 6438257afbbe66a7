// Our search on one workload under RLIMIT_DATA = what the idle process has + so many MiB, then 50 updates
// and an evaluation at the size found. One JSON line, with the fields of the peers' scripts.
#include <ATen/CPUGeneratorImpl.h>
#include <sys/resource.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "autotrain/error.h"
#include "autotrain/trainer.h"
#include "base/clock.h"
#include "device/warm_up.h"
#include "process_memory.h"
#include "programs.h"
#include "workloads.h"

namespace autotrain::bench {
namespace {

std::vector<torch::Tensor> state_of(torch::nn::Module& module) {
  std::vector<torch::Tensor> state;
  for (const torch::Tensor& tensor : module.parameters()) state.push_back(tensor.detach().clone());
  for (const torch::Tensor& tensor : module.buffers()) state.push_back(tensor.detach().clone());
  state.push_back(at::detail::getDefaultCPUGenerator().get_state());
  return state;
}

bool equal(const std::vector<torch::Tensor>& a, const std::vector<torch::Tensor>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (!torch::equal(a[i], b[i])) return false;
  }
  return a.size() == b.size();
}

bool any_gradient(torch::nn::Module& module) {
  for (const torch::Tensor& tensor : module.parameters()) {
    if (tensor.grad().defined()) return true;
  }
  return false;
}

Recipe recipe_of_search(int64_t largest) {
  Recipe recipe = plain_recipe();
  recipe.batch.max_effective = largest;
  recipe.batch.lr_rule = "none";
  recipe.execution.precision = Precision::kFp32;
  recipe.execution.search.plan_cache = false;
  recipe.stop.updates = 50;
  return recipe;
}

}  // namespace

int search_step(int argc, char** argv) {
  const std::string name = argument(argc, argv, "workload", "mlp");
  const int64_t budget_mib = std::stoll(argument(argc, argv, "budget-mib", "512"));
  const Recipe recipe = recipe_of_search(std::stoll(argument(argc, argv, "max-val", "8192")));

  warm_up_cpu();
  Workload workload = make_workload(name);
  limit_data_to(budget_mib);
  nlohmann::ordered_json result = {{"peer", "autotrain"}, {"workload", name}, {"budget_mib", budget_mib}};
  try {
    Trainer trainer(recipe, std::move(workload.task), *workload.train, *workload.validation,
                    {.write_files = false});
    const auto before = state_of(trainer.module());
    const Stopwatch search;
    const BatchPlan& plan = trainer.plan();
    result["wall_s"] = search.seconds();
    result["trials"] = plan.search.probes.size();
    result["samples"] = plan.search.samples;
    result["chosen"] = plan.micro_batch;
    result["budget_auto_mib"] = plan.budget_bytes >> 20;
    result["fill"] = plan.fill;
    result["reason"] = to_string(plan.search.reason);
    result["no_trace"] = equal(before, state_of(trainer.module())) && !any_gradient(trainer.module());
    const Stopwatch training;
    const Summary summary = trainer.fit();
    result["survival"] = {{"ok", summary.updates == 50 && summary.final.contains("loss")},
                          {"steps", summary.updates},
                          {"peak_mib", summary.peak_bytes >> 20},
                          {"wall_s", training.seconds()}};
  } catch (const Error& error) {
    result["error"] = error.what();
  }
  std::printf("%s\n", result.dump().c_str());
  return 0;
}

}  // namespace autotrain::bench
