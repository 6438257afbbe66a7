// Our search on one workload under a limit of so many MiB above what the idle process has, then updates and
// an evaluation at the size found. One JSON line, with the fields of the peers' scripts.
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "autotrain/error.h"
#include "autotrain/trainer.h"
#include "base/clock.h"
#include "device/kernel_caches.h"
#include "device/warm_up.h"
#include "process_memory.h"
#include "programs.h"
#include "recipe/recipe_enums.h"
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

// Who refuses: the kernel (RLIMIT_DATA or RLIMIT_AS, the caller's memory cgroup), or nobody but us.
constexpr std::array kLimits = {"data", "as", "outer", "typed"};

Recipe recipe_of_search(int argc, char** argv) {
  const auto number = [&](const char* key, const char* fallback) {
    return std::stoll(argument(argc, argv, key, fallback));
  };
  Recipe recipe = plain_recipe();
  recipe.batch.limits.max_effective = number("max-val", "8192");
  if (const int64_t effective = number("effective", "0"); effective > 0) recipe.batch.effective = effective;
  recipe.batch.lr_rule = "none";
  recipe.execution.device = argument(argc, argv, "device", "cpu");
  recipe.execution.precision = *parse_enum<Precision>(argument(argc, argv, "precision", "fp32"));
  recipe.execution.search.plan_cache = false;
  recipe.stop.updates = number("updates", "50");
  return recipe;
}

void set_limit(const std::string& kind, int64_t budget_mib, Recipe& recipe) {
  if (std::ranges::find(kLimits, kind) == kLimits.end()) throw std::invalid_argument("no limit " + kind);
  if (kind == "data") limit_data_to(budget_mib);
  if (kind == "as") limit_address_space_to(budget_mib);
  if (kind == "typed") recipe.execution.memory.budget = *Budget::parse(std::to_string(budget_mib) + "MiB");
}

}  // namespace

int search_step(int argc, char** argv) {
  const std::string name = argument(argc, argv, "workload", "mlp");
  const int64_t budget_mib = std::stoll(argument(argc, argv, "budget-mib", "512"));
  const std::string limit = argument(argc, argv, "limit", "data");
  Recipe recipe = recipe_of_search(argc, argv);

  bound_kernel_caches(budget_mib << 20);  // as a Trainer does that is made before anything is computed
  warm_up_cpu();
  Workload workload = make_workload(name);
  set_limit(limit, budget_mib, recipe);
  nlohmann::ordered_json result = {
      {"peer", "autotrain"}, {"workload", name}, {"budget_mib", budget_mib}, {"limit", limit}};
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
    result["capacity"] = plan.search.micro_batch;
    result["capacity_fill"] = plan.search.fill;
    result["fill"] = plan.fill;
    result["reason"] = to_string(plan.search.reason);
    for (const ProbeRecord& p : plan.search.probes)
      result["probes"].push_back({{"size", p.micro_batch},
                                  {"outcome", to_string(p.outcome)},
                                  {"fill", p.fill},
                                  {"peak", p.peak_bytes},
                                  {"outside", p.outside_bytes},
                                  {"refused", p.refused_bytes}});
    result["no_trace"] = equal(before, state_of(trainer.module())) && !any_gradient(trainer.module());
    const Stopwatch training;
    const Summary summary = trainer.fit();
    result["survival"] = {
        {"ok", summary.updates == *recipe.stop.updates && summary.final.contains("loss")},
        {"steps", summary.updates},
        {"peak_mib", summary.peak_bytes >> 20},
        {"fill", static_cast<double>(summary.peak_bytes) / static_cast<double>(plan.budget_bytes)},
        {"recoveries", summary.oom_recoveries},
        {"wall_s", training.seconds()}};
  } catch (const Error& error) {
    result["error"] = error.what();
  }
  std::printf("%s\n", result.dump().c_str());
  return 0;
}

}  // namespace autotrain::bench
