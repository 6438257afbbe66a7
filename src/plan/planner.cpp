#include "plan/planner.h"

#include <torch/nn/modules/batchnorm.h>

#include <algorithm>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/clock.h"
#include "base/text.h"
#include "base/units.h"
#include "optim/lr_rules.h"
#include "plan/cut.h"

namespace autotrain {
namespace {

void replace_or_add(std::vector<ProbeRecord>& history, const ProbeRecord& record) {
  for (ProbeRecord& known : history) {
    if (known.micro_batch == record.micro_batch) {
      known = record;
      return;
    }
  }
  history.push_back(record);
}

std::string probe_line(size_t number, const ProbeRecord& probe) {
  std::string line = cat("probe ", number, ": micro ", probe.micro_batch);
  if (probe.peak_bytes > 0) {
    line += cat(" · peak ", format_bytes(probe.peak_bytes), " · fill ", format_percent(probe.fill));
  }
  line += cat(" · ", to_string(probe.outcome), probe.confirmed ? ", confirmed" : "");
  if (probe.samples_per_second > 0) line += cat(" · ", format_rate(probe.samples_per_second), " samples/s");
  return line + " · " + format_seconds(probe.seconds);
}

}  // namespace

bool has_batch_norm(const torch::nn::Module& module) {
  for (const auto& part : module.modules(/*include_self=*/true)) {
    if (part->as<torch::nn::BatchNorm1dImpl>() || part->as<torch::nn::BatchNorm2dImpl>() ||
        part->as<torch::nn::BatchNorm3dImpl>()) {
      return true;
    }
  }
  return false;
}

Planner::Planner(const PlanRequest& request, const Workbench& bench, ProbeListener listener)
    : request_(request),
      bench_(bench),
      listener_(std::move(listener)),
      probe_(bench, request.recipe.execution.memory.target_high),
      strategy_(find_strategy(request.recipe.execution.search.strategy)) {}

// Samples of an update on one rank; 0 while `effective: auto` leaves it open.
int64_t Planner::share() const {
  const auto& effective = request_.recipe.batch.effective;
  return effective ? ceil_div(*effective, request_.world_size) : 0;
}

SearchLimits Planner::limits() const {
  const Recipe& r = request_.recipe;
  const SearchRecipe& s = r.execution.search;
  const int64_t in_data = std::max<int64_t>(1, bench_.train.size() / request_.world_size);
  SearchLimits limits{.budget_bytes = bench_.device.budget_bytes(),
                      .target_low = r.execution.memory.target_low,
                      .target_high = r.execution.memory.target_high,
                      .minimum = request_.has_batch_norm ? 2 : 1,
                      .cap = in_data,
                      .cap_reason = SearchReason::kDataset,
                      .multiple_of = s.multiple_of,
                      .floor_bytes = statement().floor(),
                      .max_probes = s.max_probes,
                      .max_seconds = s.max_seconds,
                      .pivot = s.pivot};
  const auto cap_at = [&](int64_t size, SearchReason reason) {
    if (size < limits.cap) limits.cap = size, limits.cap_reason = reason;
  };
  if (r.batch.effective) {
    cap_at(share(), SearchReason::kEffectiveBatch);
    if (share() == in_data) limits.cap_reason = SearchReason::kEffectiveBatch;
  } else {
    const int64_t most = r.batch.max_effective.value_or(
        std::min(8 * r.optimizer.reference_batch, std::max<int64_t>(1, bench_.train.size() / 20)));
    cap_at(std::max<int64_t>(1, most / request_.world_size), SearchReason::kCap);
  }
  if (s.max_micro_batch) cap_at(*s.max_micro_batch, SearchReason::kCap);
  limits.minimum = std::min(limits.minimum, limits.cap);
  return limits;
}

int64_t Planner::window_samples_for(int64_t micro_batch) const {
  return share() > 0 ? std::max(share(), micro_batch) : micro_batch;
}

TrialShape Planner::shape_for(int64_t micro_batch) const {
  const int64_t evaluation = request_.recipe.evaluation.micro_batch.value_or(micro_batch);
  return {.micro_batch = micro_batch,
          .window_samples = window_samples_for(micro_batch),
          .evaluation_micro_batch = bench_.validation != nullptr ? evaluation : 0};
}

MemoryStatement Planner::statement() const { return memory_statement(bench_, request_.precision); }

void Planner::keep(const ProbeRecord& record) {
  replace_or_add(history_, record);
  all_.push_back(record);
  log::info("plan", probe_line(all_.size(), record));
  if (listener_) listener_(record);
}

ProbeRecord Planner::run_probe(int64_t size, const Probe::Extend& extend) {
  ProbeRecord record = probe_.run(shape_for(size), extend);
  if (probe_.last_refusal()) refusal_ = probe_.last_refusal();
  return record;
}

ProbeRecord Planner::confirm(int64_t size) {
  const ProbeRecord record = run_probe(size, [](const ProbeRecord&) { return true; });
  keep(record);
  return record;
}

// Runs trials until the strategy is done. A trial that ends the search is extended to its
// confirmation on the spot.
Planner::Capacity Planner::search(const SearchLimits& limits) {
  for (;;) {
    const SearchStep step = strategy_.next(history_, limits);
    if (step.done) {
      for (const ProbeRecord& record : history_) {
        if (record.micro_batch == step.size) return {step.size, record, step.reason};
      }
      return {0, {}, step.reason};
    }
    keep(run_probe(step.size, [&](const ProbeRecord& so_far) {
      if (strategy_.timed) return true;  // later updates are the ones worth timing
      std::vector<ProbeRecord> with_this = history_;
      replace_or_add(with_this, so_far);
      const SearchStep then = strategy_.next(with_this, limits);
      return then.done && then.size == step.size;
    }));
  }
}

Planner::Capacity Planner::search_confirmed(const SearchLimits& limits) {
  for (;;) {
    Capacity capacity = search(limits);
    if (capacity.size == 0) fail_smallest(limits);
    if (capacity.record.confirmed) return capacity;
    // Found by an earlier trial: run it from clean state now. If it leaves the band, the search goes
    // on below it.
    capacity.record = confirm(capacity.size);
    if (capacity.record.fits()) return capacity;
  }
}

Planner::Capacity Planner::take_typed(int64_t size) {
  const ProbeRecord record = confirm(size);
  if (!record.confirmed) fail_typed(size);
  if (!record.fits()) {
    log::warn("plan", cat("micro-batch ", size, " fills ", format_percent(record.fill), " of the budget, above the band's ",
                          format_percent(request_.recipe.execution.memory.target_high, 0), "; it was typed, so it runs"));
  }
  return {size, record, SearchReason::kFixed};
}

ProbeRecord Planner::execute(const Capacity& capacity, int64_t& micro_batch) {
  const bool typed = request_.recipe.execution.micro_batch.has_value();
  micro_batch = capacity.size;
  if (typed || share() == 0) return capacity.record;
  micro_batch = executed_micro_batch({.share = share(), .capacity = capacity.size,
                                      .cut = request_.recipe.execution.cut,
                                      .minimum = request_.has_batch_norm ? 2 : 1});
  if (micro_batch == capacity.size) return capacity.record;
  const ProbeRecord record = confirm(micro_batch);
  if (record.fits()) return record;
  // Memory is not monotone in the size. The capacity was run with its own remainder, and fits.
  micro_batch = capacity.size;
  return capacity.record;
}

void Planner::check_splittable(int64_t window) const {
  if (window == 1 || bench_.task.splittable()) return;
  throw Error(ExitCode::kDoesNotFit, "batch.effective",
              cat("the task mixes samples (splittable: false), so its ", share(),
                  " samples must fit in one micro-batch, and they do not"),
              "lower batch.effective, or raise execution.memory.budget");
}

LearningRatePlan Planner::learning_rate(int64_t effective) const {
  const OptimizerRecipe& o = request_.recipe.optimizer;
  const LrRule& rule = find_lr_rule(request_.recipe.batch.lr_rule);
  const double ratio = static_cast<double>(effective) / static_cast<double>(o.reference_batch);
  return {.base = o.lr, .reference_batch = o.reference_batch, .rule = rule.spec.name,
          .scaled = o.lr * rule.factor(ratio)};
}

BatchPlan Planner::plan() {
  const Recipe& r = request_.recipe;
  if (r.batch.effective && *r.batch.effective > bench_.train.size()) {
    throw Error(ExitCode::kBadRecipe, "batch.effective",
                cat(*r.batch.effective, " is more than the ", bench_.train.size(), " samples of the data set"),
                "lower it; an update never sees a sample twice");
  }
  const Stopwatch watch;
  const Capacity capacity = r.execution.micro_batch ? take_typed(*r.execution.micro_batch) : search_confirmed(limits());
  BatchPlan plan;
  const ProbeRecord executed = execute(capacity, plan.micro_batch);
  const int64_t share = this->share() > 0 ? this->share() : plan.micro_batch;
  plan.window = WindowCut{share, plan.micro_batch}.pieces();
  check_splittable(plan.window);

  plan.device = bench_.device.torch_device().str();
  plan.device_name = bench_.device.name();
  plan.precision = request_.precision;
  plan.world_size = request_.world_size;
  plan.budget_bytes = bench_.device.budget_bytes();
  plan.budget_source = bench_.device.budget_source();
  plan.target_low = r.execution.memory.target_low;
  plan.target_high = r.execution.memory.target_high;
  plan.effective_batch = r.batch.effective.value_or(plan.micro_batch * request_.world_size);
  plan.cut = r.execution.cut;
  plan.fill = executed.fill;
  plan.peak_bytes = executed.peak_bytes;
  plan.confirmed = executed.confirmed;
  plan.samples_per_second = executed.samples_per_second;
  plan.evaluation_micro_batch = r.evaluation.micro_batch.value_or(plan.micro_batch);
  plan.loss_factor = loss_factor_for(executed.weight);
  plan.lr = learning_rate(plan.effective_batch);
  plan.search = {.strategy = r.execution.micro_batch ? "fixed" : r.execution.search.strategy,
                 .micro_batch = capacity.size,
                 .fill = capacity.record.fill,
                 .peak_bytes = capacity.record.peak_bytes,
                 .reason = capacity.reason,
                 .confirmed = capacity.record.confirmed,
                 .probes = all_,
                 .seconds = watch.seconds()};
  for (const ProbeRecord& probe : all_) plan.search.samples += probe.samples;
  return plan;
}

}  // namespace autotrain
