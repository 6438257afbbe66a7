#include "trainer/identity.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>

#include <vector>

#include "base/text.h"
#include "base/version.h"

namespace autotrain {
namespace {

constexpr const char* kDeterministic = "deterministic";

}  // namespace

Identity identity_of(const Device& device, const BatchPlan& plan) {
  return {{"autotrain", version()},
          {"device", device.name()},
          {"software", device.software()},
          {"instructions", at::get_cpu_capability()},
          {"threads", std::to_string(at::get_num_threads())},
          {kDeterministic, at::globalContext().deterministicAlgorithms() ? "yes" : "no"},
          {"precision", to_string(plan.precision)},
          {"memory format", to_string(plan.memory_format)},
          {"ranks", std::to_string(plan.world_size)},
          {"micro-batch", std::to_string(plan.micro_batch)},
          {"micro-batch of evaluations", std::to_string(plan.evaluation_micro_batch)}};
}

std::string exactness(const Identity& before, const Identity& now) {
  std::vector<std::string> reasons;
  for (const auto& [fact, value] : now) {
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
