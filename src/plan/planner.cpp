#include "plan/planner.h"

#include <torch/nn/modules/batchnorm.h>

#include <algorithm>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/clock.h"
#include "base/text.h"
#include "base/units.h"
#include "model/models.h"
#include "optim/lr_rules.h"
#include "plan/cut.h"
#include "plan/plan_checks.h"
#include "plan/plan_enums.h"
#include "plan/plan_key.h"
#include "plan/plan_words.h"
#include "plan/size_grid.h"
#include "plan/smallest_inputs.h"
#include "step/precision.h"

namespace autotrain {
namespace {

// What a process holds beside the model may differ; all search from one figure.
int64_t agreed_floor(Workbench& bench) {
  const int64_t mine = memory_statement(bench).floor();
  if (!bench.ranks->several()) return mine;
  int64_t most = 0;
  for (const Ranks::Note& note : bench.ranks->meet(mine)) most = std::max(most, note.get<int64_t>());
  return most;
}

void describe_machine(const PlanRequest& request, Workbench& bench, BatchPlan& plan) {
  plan.device = bench.device->torch_device().str();
  plan.device_name = bench.device->name();
  plan.precision = bench.precision;
  plan.memory_format = bench.memory_format;
  plan.world_size = bench.ranks->place().world;
  plan.lanes = request.lanes;
  plan.budget_bytes = bench.device->budget_bytes();
  plan.budget_source = bench.device->budget_source();
  if (!bench.device->torch_device().is_cpu()) plan.others_bytes = bench.device->used_by_others_bytes();
  plan.target_low = request.recipe.execution.memory.target_low;
  plan.target_high = request.recipe.execution.memory.target_high;
}

}  // namespace

bool has_batch_norm(const torch::nn::Module& module) {
  // An exported module's parts have no types, but the buffers of Python's.
  const auto is_batch_norm = [](const torch::nn::Module& part) {
    return part.as<torch::nn::BatchNorm1dImpl>() || part.as<torch::nn::BatchNorm2dImpl>() ||
           part.as<torch::nn::BatchNorm3dImpl>() ||
           part.named_buffers(/*recurse=*/false).contains("running_mean");
  };
  // The module itself may be a plain member of its task, which no shared_ptr holds.
  if (is_batch_norm(module)) return true;
  return std::ranges::any_of(module.modules(/*include_self=*/false), [&](const auto& part) {
    const bool frozen = module.is_training() && !part->is_training();  // it computes as in evaluation
    return !frozen && is_batch_norm(*part);
  });
}

int64_t smallest_batch(const torch::nn::Module& module) {
  const Network* const network = as_network(module);
  return std::max<int64_t>(has_batch_norm(module) ? 2 : 1,
                           network != nullptr ? network->smallest_batch() : 1);
}

Planner::Planner(const PlanRequest& request, Workbench& bench, TrialListener listener)
    : request_(request),
      bench_(bench),
      listener_(std::move(listener)),
      smallest_(smallest_batch(bench.task->module())),
      probe_(bench, request.recipe.execution.memory.target_high) {
  if (request.recipe.execution.cuda_graphs == CudaGraphs::kOn && why_not_recorded(bench).empty())
    probe_.record_with([this] { return bench_.device->make_recorder(); });
}

int64_t PlanRequest::share() const {
  return recipe.batch.effective ? ceil_div(*recipe.batch.effective, lanes) : 0;
}

std::vector<int64_t> PlanRequest::shares_of_smaller_batches() const {
  std::vector<int64_t> shares;
  for (const int64_t batch : smaller_batches) {
    shares.push_back(ceil_div(batch, lanes));
    shares.push_back(std::max<int64_t>(1, batch / lanes));
  }
  return shares;
}

SearchLimits Planner::limits() const {
  const Recipe& r = request_.recipe;
  const SearchRecipe& s = r.execution.search;
  const int64_t in_data = std::max<int64_t>(1, bench_.data.train->size() / request_.lanes);
  SearchLimits limits{
      .budget_bytes = bench_.device->budget_bytes(),
      .target_low = r.execution.memory.target_low,
      .target_high = r.execution.memory.target_high,
      .minimum = smallest_,
      .cap = in_data,
      .cap_reason = SearchReason::kDataset,
      .multiple_of = s.multiple_of.value_or(preferred_multiple(bench_.precision, *bench_.device)),
      .throughput_share = s.throughput_share,
      .floor_bytes = agreed_floor(bench_),
      .max_probes = s.max_probes,
      .max_seconds = s.max_seconds,
      .pivot = s.pivot};
  const auto cap_at = [&](int64_t size, SearchReason reason) {
    if (size < limits.cap) limits.cap = size, limits.cap_reason = reason;
  };
  if (r.batch.effective) {
    cap_at(request_.share(), SearchReason::kEffectiveBatch);
    if (request_.share() == in_data) limits.cap_reason = SearchReason::kEffectiveBatch;
  } else {
    const int64_t most = r.batch.limits.max_effective.value_or(
        std::min(8 * r.optimizer.reference_batch, std::max<int64_t>(1, bench_.data.train->size() / 20)));
    // Of few data, a twentieth may be a single sample.
    const int64_t least = r.batch.limits.max_effective ? 1 : std::min(in_data, smallest_);
    cap_at(std::max(least, most / request_.lanes), SearchReason::kCap);
  }
  if (const auto& most = r.batch.limits.max_micro_batch) cap_at(*most, SearchReason::kCap);
  limits.minimum = std::min(limits.minimum, limits.cap);
  return limits;
}

std::vector<int64_t> PlanRequest::smaller_windows(int64_t effective) const {
  std::vector<int64_t> windows = smaller_batches;
  if (const int64_t last = last_window(effective); last > 0) windows.push_back(last);
  return windows;
}

TrialShape Planner::shape_for(int64_t micro_batch) const {
  // A remainder too small for batch normalisation is never executed, so never tried.
  const auto without_rest = [&](int64_t samples) {
    const bool rest = samples > 0 && remainder_of(samples, micro_batch) < smallest_;
    return rest ? samples - 1 : samples;
  };
  const int64_t window_samples = without_rest(std::max(request_.share(), micro_batch));
  const int64_t lanes = request_.lanes;
  std::vector<int64_t> smaller;
  for (const int64_t window :
       request_.smaller_windows(request_.recipe.batch.effective.value_or(micro_batch * lanes))) {
    if (const int64_t samples = without_rest(ceil_div(window, lanes)); samples > 0)
      smaller.push_back(samples);
  }
  return {.micro_batch = micro_batch,
          .window_samples = std::max(window_samples, micro_batch),
          .evaluation_micro_batch = bench_.data.validation != nullptr
                                        ? request_.recipe.evaluation.micro_batch.value_or(micro_batch)
                                        : 0,
          .smaller_windows = std::move(smaller)};
}

void Planner::begin_search() {
  search_.emplace(
      *bench_.device,
      SizeSearch::Options{
          .limits = limits(),
          .strategy = find_strategy(request_.recipe.execution.search.strategy),
          .trial = [this](int64_t size, const ExtendTrial& extend) { return run_trial(size, extend); },
          .name = [](int64_t size) { return cat("micro-batch ", size); },
          .in_words = trial_in_words,
          .listener = listener_,
          .known = request_.known});
}

ProbeRecord Planner::run_trial(int64_t size, const ExtendTrial& extend) {
  probe_.set_target_high(search_->limits().target_high);
  ProbeRecord record = probe_.run(shape_for(size), extend);
  if (probe_.last_refusal()) refusal_ = probe_.last_refusal();
  if (!record.fits()) library_error_ = probe_.library_error();
  return record;
}

Planner::Capacity Planner::take_typed(int64_t size) {
  const int64_t share = std::max(request_.share(), size);
  const int64_t samples = request_.recipe.batch.effective.value_or(size * request_.lanes);
  if (smallest_remainder(samples, request_.lanes, size) < smallest_) {
    throw Error(ExitCode::kBadRecipe, "execution.micro_batch",
                cat(size, " leaves a remainder of one sample in a batch of ", share,
                    ", which batch normalisation cannot learn from"),
                cat("give another size, or leave it out: the search avoids such remainders"));
  }
  const std::optional<Capacity> typed = search_->take_typed(size);
  if (!typed) fail_typed(size);
  return *typed;
}

// The record of the size that the run executes. Memory is not monotone in the size, so a smaller one than the
// capacity may not fit: then the capacity is executed, which was run with its own remainder, or where that
// remainder cannot be left, the next size below that fits.
ProbeRecord Planner::execute(const Capacity& capacity, int64_t& micro_batch) {
  micro_batch = capacity.size;
  const bool typed = request_.recipe.execution.micro_batch.has_value();
  if (typed || request_.share() == 0) return capacity.record;
  CutRequest request{.share = request_.share(),
                     .capacity = capacity.size,
                     .cut = request_.recipe.execution.cut,
                     .minimum = smallest_,
                     .uneven = request_.recipe.batch.effective.value_or(0) % request_.lanes != 0,
                     .others = request_.shares_of_smaller_batches()};
  for (;;) {
    micro_batch = executed_micro_batch(request);
    if (micro_batch == capacity.size) return capacity.record;
    const ProbeRecord record = search_->confirm(micro_batch);
    if (record.fits()) return record;
    if (request.cut == Cut::kFull) request.capacity = micro_batch - 1;
    request.cut = Cut::kFull;
    if (request.capacity < request.minimum) fail_smallest();
  }
}

LearningRatePlan learning_rate_plan(const Recipe& recipe, int64_t effective_batch) {
  const OptimizerRecipe& o = recipe.optimizer;
  const LrRule& rule = find_lr_rule(recipe.batch.lr_rule);
  const double ratio = static_cast<double>(effective_batch) / static_cast<double>(o.reference_batch);
  return {.base = o.lr,
          .reference_batch = o.reference_batch,
          .rule = rule.spec.name,
          .scaled = o.lr * rule.factor(ratio)};
}

// What all ranks take for kept is what the first one finds.
std::optional<SearchResult> Planner::kept_capacity() const {
  const auto cache = request_.recipe.execution.search.plan_cache ? PlanCache::of_user() : std::nullopt;
  std::optional<SearchResult> kept = cache && !request_.fresh ? cache->find(key_) : std::nullopt;
  if (!bench_.ranks->several()) return kept;
  Ranks::Note note;
  if (kept) note = {kept->micro_batch, static_cast<int>(kept->reason)};
  note = bench_.ranks->from_first(note);
  if (note.is_null()) return std::nullopt;
  return SearchResult{.micro_batch = note.at(0).get<int64_t>(),
                      .reason = static_cast<SearchReason>(note.at(1).get<int>())};
}

// Whether a search may find more now than a kept size that fits and lies below the band. A size of the grid
// that was the last one below it is, as long as the next one does not fit.
bool Planner::may_be_larger(const SearchResult& kept, const ProbeRecord& record) {
  const SearchLimits& limits = search_->limits();
  const bool other_bound = kept.reason == SearchReason::kKnee || kept.reason == SearchReason::kIndexLimit;
  if (record.fill >= limits.target_low || kept.micro_batch >= limits.cap || other_bound) return false;
  if (kept.reason != SearchReason::kGranularity) return true;
  const int64_t next =
      half_step_between(static_cast<double>(kept.micro_batch + 1), kept.micro_batch, limits.cap + 1, limits);
  return search_->confirm(next).fits();
}

// The capacity of an earlier run, when a trial shows that it still is what it was found to be.
std::optional<Planner::Capacity> Planner::try_kept() {
  const SearchLimits& limits = search_->limits();
  const std::optional<SearchResult> kept = kept_capacity();
  if (!kept || kept->reason == SearchReason::kSearchLimit || kept->micro_batch < limits.minimum ||
      kept->micro_batch > limits.cap) {
    return std::nullopt;
  }
  const ProbeRecord* const known = find_size(search_->history(), kept->micro_batch);
  if (known != nullptr && !known->fits()) return std::nullopt;  // it was tried before the search began anew
  const ProbeRecord record = search_->confirm(kept->micro_batch);
  const bool below_band = record.fits() && may_be_larger(*kept, record);
  if (!record.fits() || below_band) {
    log::info("plan",
              cat("the kept capacity ", kept->micro_batch,
                  below_band ? " now lies below the band" : " does not fit any more", ": searching anew"));
    return std::nullopt;
  }
  log::info("plan", cat("capacity ", kept->micro_batch,
                        " from the plan cache, confirmed by a trial; --fresh-plan searches"));
  return Capacity{kept->micro_batch, record, kept->reason};
}

Planner::Capacity Planner::find_capacity(BatchPlan& plan) {
  const auto& typed = request_.recipe.execution.micro_batch;
  if (typed) return take_typed(*typed);
  key_ = plan_key(request_, bench_, search_->limits());
  const std::optional<Capacity> kept = try_kept();
  plan.search.from_cache = kept.has_value();
  if (kept) return *kept;
  const std::optional<Capacity> found = search_->find();
  if (!found) fail_smallest();
  return *found;
}

// The size that is executed, with what was measured of it.
void Planner::describe_executed(BatchPlan& plan, const Capacity& capacity) {
  const ProbeRecord executed = execute(capacity, plan.micro_batch);
  const auto budget = static_cast<double>(bench_.device->budget_bytes());
  plan.fill = executed.fill;
  plan.typical_fill =
      executed.typical_bytes == 0 ? executed.fill : static_cast<double>(executed.typical_bytes) / budget;
  plan.peak_bytes = executed.peak_bytes;
  plan.confirmed = executed.confirmed;
  plan.samples_per_second = executed.samples_per_second;
  plan.loss_factor = loss_factor_for(executed.weight);
}

BatchPlan Planner::plan() {
  const Recipe& r = request_.recipe;
  check_effective(request_, bench_);
  check_single_samples(request_, bench_);
  try_smallest_inputs(bench_);
  const Stopwatch watch;
  BatchPlan plan;
  const std::optional<SplitVerdict> verdict = verdict_on_cuts(request_, bench_);
  begin_search();
  Capacity capacity = find_capacity(plan);
  describe_executed(plan, capacity);
  search_->judge(capacity.record);
  describe_machine(request_, bench_, plan);
  plan.cut = r.execution.cut;
  plan.fill = static_cast<double>(plan.peak_bytes) / static_cast<double>(plan.budget_bytes);
  plan.effective_batch = r.batch.effective.value_or(plan.micro_batch * request_.lanes);
  plan.window = WindowCut{plan.effective_batch, plan.micro_batch, bench_.lanes}.most_pieces();
  plan.evaluation_micro_batch = r.evaluation.micro_batch.value_or(plan.micro_batch);
  plan.lr = learning_rate_plan(r, plan.effective_batch);
  plan.search.strategy = r.execution.micro_batch ? "fixed" : r.execution.search.strategy;
  plan.search.micro_batch = capacity.size;
  plan.search.fill = capacity.record.fill;
  plan.search.peak_bytes = capacity.record.peak_bytes;
  plan.search.reason = capacity.reason;
  plan.search.confirmed = capacity.record.confirmed;
  plan.search.probes = search_->trials();
  if (const ProbeRecord* const fast = smallest_fast(plan.search.probes, r.execution.search.throughput_share))
    plan.search.fast_micro_batch = fast->micro_batch;
  for (const ProbeRecord& probe : plan.search.probes) plan.search.samples += probe.samples;
  check_window(request_, bench_, verdict, plan);
  decide_recording(plan);
  plan.search.seconds = watch.seconds();
  keep_plan(plan);
  return plan;
}

// Only what was searched here is worth keeping, and to its end: one that was cut short may have met a machine
// that was busy.
void Planner::keep_plan(const BatchPlan& plan) const {
  const SearchRecipe& search = request_.recipe.execution.search;
  if (request_.recipe.execution.micro_batch || plan.search.from_cache || !search.plan_cache) return;
  if (plan.search.reason == SearchReason::kSearchLimit) return;
  if (!bench_.ranks->first()) return;
  if (const auto cache = PlanCache::of_user()) cache->store(key_, plan);
}

}  // namespace autotrain
