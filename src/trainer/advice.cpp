#include "trainer/advice.h"

#include <algorithm>

#include "base/text.h"
#include "base/units.h"
#include "plan/plan_enums.h"
#include "plan/planner.h"
#include "step/precision.h"

namespace autotrain {
namespace {

constexpr double kMuchMemory = 0.25;   // of the budget unused
constexpr double kMuchWaiting = 0.05;  // of the training time
constexpr double kManySkips = 0.02;    // of the updates
constexpr double kMuchSlower = 1.2;    // than the fastest rank
constexpr double kMostUpdates = 0.8;   // whose slowest rank it is

}  // namespace

std::string straggler_advice(const Summary& summary) {
  const auto fastest = std::ranges::min_element(summary.ranks, {}, &RankSummary::seconds);
  const auto slowest = std::ranges::max_element(summary.ranks, {}, &RankSummary::seconds);
  int64_t updates = 0;
  for (const RankSummary& rank : summary.ranks) updates += rank.slowest;
  const bool steadily =
      updates > 0 && static_cast<double>(slowest->slowest) > kMostUpdates * static_cast<double>(updates);
  if (!steadily || slowest->seconds < kMuchSlower * fastest->seconds) return "";
  return cat("rank ", slowest - summary.ranks.begin(), " on ", slowest->host, " takes ",
             brief(slowest->seconds / fastest->seconds, 3),
             " times as long as the fastest rank for the same number of samples, and the others wait for it: "
             "see what else runs there, or leave that machine out");
}

std::vector<std::string> advice_for(const Recipe& recipe, const BatchPlan& plan, const Workbench& bench,
                                    const Summary& summary) {
  std::vector<std::string> advice;
  const double reached =
      plan.budget_bytes > 0 ? static_cast<double>(summary.peak_bytes) / static_cast<double>(plan.budget_bytes)
                            : 0;
  const double unused = 1 - std::max(plan.search.fill, reached);
  if (unused > kMuchMemory && plan.search.reason == SearchReason::kEffectiveBatch) {
    advice.push_back(cat(format_percent(unused, 0),
                         " of the memory budget is free: a larger model or batch.effective fits, "
                         "or a smaller execution.memory.budget is enough"));
  }
  if (unused > kMuchMemory && plan.search.reason == SearchReason::kCap) {
    advice.push_back(cat(format_percent(unused, 0),
                         " of the memory budget is free: raise batch.limits.max_effective or "
                         "batch.limits.max_micro_batch to use it"));
  }
  if (plan.search.reason == SearchReason::kSearchLimit) {
    advice.push_back(
        "the search ran out of probes or time: raise execution.search.max_probes or max_seconds");
  }
  const std::string smaller = smaller_size_advice(plan);
  if (!smaller.empty()) {
    advice.push_back(smaller + ": execution.search.strategy: throughput looks for the smallest fast size");
  }
  if (plan.window > 1 && has_batch_norm(bench.task->module())) {
    advice.push_back(
        cat("batch normalisation saw ", plan.micro_batch, " samples at a time, not ", plan.effective_batch,
            ": raise execution.memory.budget until one micro-batch holds them, or use a model without it"));
  }
  if (summary.data_wait_fraction > kMuchWaiting) {
    advice.push_back(cat(format_percent(summary.data_wait_fraction),
                         " of the training time was spent waiting for data: "
                         "autotrain doctor tries what would shorten that"));
  }
  const std::string straggler = straggler_advice(summary);
  if (!straggler.empty()) advice.push_back(straggler);
  const auto updates = static_cast<double>(std::max<int64_t>(1, summary.updates));
  if (static_cast<double>(summary.skipped_updates) > kManySkips * updates) {
    advice.push_back(cat(summary.skipped_updates,
                         " updates were skipped as not finite: lower optimizer.lr, set "
                         "optimizer.clip_norm, or use execution.precision: bf16"));
  }
  const std::optional<Precision> faster = faster_precision(plan.precision, *bench.device);
  if (faster && recipe.execution.precision == plan.precision) {
    advice.push_back(cat("this device multiplies ", to_string(*faster),
                         " natively; autotrain plan --alternatives measures what that would gain"));
  }
  return advice;
}

}  // namespace autotrain
