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
#include "plan/lone_values.h"
#include "plan/plan_enums.h"
#include "plan/plan_key.h"
#include "step/precision.h"

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
  line += cat(" · ", in_words(probe.outcome), probe.confirmed ? ", confirmed" : "");
  if (probe.samples_per_second > 0) line += cat(" · ", format_rate(probe.samples_per_second), " samples/s");
  return line + " · " + format_seconds(probe.seconds);
}

}  // namespace

bool has_batch_norm(const torch::nn::Module& module) {
  for (const auto& part : module.modules(/*include_self=*/true)) {
    if (module.is_training() && !part->is_training()) continue;  // frozen: it computes as in evaluation
    // An exported module's parts have no types, but the buffers of Python's.
    if (part->as<torch::nn::BatchNorm1dImpl>() || part->as<torch::nn::BatchNorm2dImpl>() ||
        part->as<torch::nn::BatchNorm3dImpl>() ||
        part->named_buffers(/*recurse=*/false).contains("running_mean")) {
      return true;
    }
  }
  return false;
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
      target_high_(request.recipe.execution.memory.target_high),
      probe_(bench, target_high_),
      strategy_(find_strategy(request.recipe.execution.search.strategy)),
      all_(request.known),
      announced_bytes_(bench.device->budget_bytes()),
      announced_source_(bench.device->budget_source()) {
  if (request.recipe.execution.cuda_graphs == CudaGraphs::kOn && why_not_recorded().empty())
    probe_.record_with([this] { return bench_.device->make_recorder(); });
  for (ProbeRecord& record : all_) {
    judge(record, announced_bytes_, target_high_);
    replace_or_add(history_, record);
  }
}

int64_t PlanRequest::share() const {
  return recipe.batch.effective ? ceil_div(*recipe.batch.effective, lanes) : 0;
}

SearchLimits Planner::limits() const {
  const Recipe& r = request_.recipe;
  const SearchRecipe& s = r.execution.search;
  const int64_t in_data = std::max<int64_t>(1, bench_.data.train->size() / request_.lanes);
  SearchLimits limits{
      .budget_bytes = bench_.device->budget_bytes(),
      .target_low = r.execution.memory.target_low,
      .target_high = target_high_,
      .minimum = smallest_piece(),
      .cap = in_data,
      .cap_reason = SearchReason::kDataset,
      .multiple_of = s.multiple_of.value_or(preferred_multiple(bench_.precision, *bench_.device)),
      .throughput_share = s.throughput_share,
      .floor_bytes = agreed_floor_.value_or(statement().floor()),
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
    const int64_t least = r.batch.limits.max_effective ? 1 : std::min(in_data, smallest_piece());
    cap_at(std::max(least, most / request_.lanes), SearchReason::kCap);
  }
  if (const auto& most = r.batch.limits.max_micro_batch) cap_at(*most, SearchReason::kCap);
  limits.minimum = std::min(limits.minimum, limits.cap);
  return limits;
}

// Of all ranks; the last one of the run among them.
std::vector<int64_t> Planner::smaller_windows(int64_t effective) const {
  std::vector<int64_t> windows = request_.smaller_batches;
  if (const int64_t last = request_.last_window(effective); last > 0) windows.push_back(last);
  return windows;
}

TrialShape Planner::shape_for(int64_t micro_batch) const {
  // A remainder too small for batch normalisation is never executed, so never tried.
  const auto without_rest = [&](int64_t samples) {
    const bool rest = samples > 0 && remainder_of(samples, micro_batch) < smallest_piece();
    return rest ? samples - 1 : samples;
  };
  const int64_t window_samples = without_rest(std::max(request_.share(), micro_batch));
  const int64_t lanes = request_.lanes;
  std::vector<int64_t> smaller;
  for (const int64_t window :
       smaller_windows(request_.recipe.batch.effective.value_or(micro_batch * lanes))) {
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

MemoryStatement Planner::statement() const {
  return memory_statement(bench_);
}

void Planner::keep(const ProbeRecord& record) {
  replace_or_add(history_, record);
  all_.push_back(record);
  log::info("plan", probe_line(all_.size(), record));
  lower_budget();
  listener_.on_end(all_.back());
}

// When a trial showed that less is granted than was announced, that is the budget from now on.
void Planner::lower_budget() {
  const int64_t granted = granted_bytes(history_, limits());
  const std::string source = cat(announced_source_, ", of which ", format_bytes(announced_bytes_),
                                 " were announced and ", format_bytes(granted), " granted");
  if (!lower_budget_to(granted, source, *bench_.device)) return;
  judge_anew();
}

void Planner::judge_anew() {
  for (std::vector<ProbeRecord>* const records : {&history_, &all_}) {
    for (ProbeRecord& record : *records) judge(record, bench_.device->budget_bytes(), target_high_);
  }
}

ProbeRecord Planner::run_probe(int64_t size, const Probe::Extend& extend) {
  listener_.on_start(size);
  ProbeRecord record = probe_.run(shape_for(size), extend);
  if (probe_.last_refusal()) refusal_ = probe_.last_refusal();
  if (!record.fits()) library_error_ = probe_.library_error();
  return record;
}

ProbeRecord Planner::confirm(int64_t size) {
  const ProbeRecord* const known = find_size(history_, size);
  if (known != nullptr && known->outcome == ProbeOutcome::kCrashed) return *known;  // it would again
  keep(run_probe(size, [](const ProbeRecord&) { return true; }));
  return *find_size(history_, size);  // judged by what is granted
}

// Runs trials until the strategy is done. A trial that is in the band or ends the search is extended to its
// confirmation on the spot: what libraries keep for the sizes that are tried after it is none of its own.
Planner::Capacity Planner::search(SearchLimits limits) {
  const int64_t most_probes = limits.max_probes;
  for (;;) {
    limits.budget_bytes = bench_.device->budget_bytes();  // a trial may have lowered it
    limits.max_probes = most_probes - distrusted_;
    const SearchStep step = strategy_.next(history_, limits);
    if (step.done) {
      const ProbeRecord* const record = find_size(history_, step.size);
      return record ? Capacity{step.size, *record, step.reason} : Capacity{0, {}, step.reason};
    }
    const auto ends_the_search = [&](const ProbeRecord& so_far) {
      std::vector<ProbeRecord> with_this = history_;
      replace_or_add(with_this, so_far);
      const SearchStep then = strategy_.next(with_this, limits);
      return then.done && then.size == step.size;
    };
    std::optional<ProbeRecord> first_update;  // when more was run than that
    const ProbeRecord record = run_probe(step.size, [&](const ProbeRecord& so_far) {
      // A strategy that compares speeds times the second update: the first one compiles kernels.
      const bool in_band = so_far.fits() && so_far.fill >= limits.target_low;
      const bool whole = strategy_.timed || whole_trials_ || in_band || ends_the_search(so_far);
      if (whole) first_update = so_far;
      return whole;
    });
    if (first_update && !record.fits()) distrust_short_trials(*first_update, record);
    keep(record);
  }
}

// An evaluation, or a shape that only some updates have, took more than a first update. So would it at the
// sizes that were tried without: tensors in proportion to the size, and beside them as much again. When
// nobody knows how much, small sizes are trusted.
void Planner::distrust_short_trials(const ProbeRecord& short_trial, const ProbeRecord& whole) {
  whole_trials_ = true;
  const auto is_short = [](const ProbeRecord& record) { return record.fits() && !record.confirmed; };
  if (whole.peak_bytes == 0) {
    distrusted_ += std::erase_if(history_, [&](const ProbeRecord& record) {
      return is_short(record) && 2 * record.micro_batch > whole.micro_batch;
    });
    return;
  }
  const auto beside = [](const ProbeRecord& record) { return record.peak_bytes - record.allocated_bytes; };
  const int64_t tensors = std::max<int64_t>(0, whole.allocated_bytes - short_trial.allocated_bytes);
  const int64_t others = std::max<int64_t>(0, beside(whole) - beside(short_trial));
  const double each = static_cast<double>(tensors) / static_cast<double>(whole.micro_batch);
  for (ProbeRecord& record : history_) {
    if (!is_short(record)) continue;
    const auto more = static_cast<int64_t>(each * static_cast<double>(record.micro_batch));
    record.allocated_bytes += more;
    record.peak_bytes += more + others;
    judge(record, bench_.device->budget_bytes(), target_high_);
  }
}

// Where weights are most of the budget, many more samples than the smallest size may take little more than
// it.
bool Planner::raise_the_edge(SearchLimits& limits) {
  const auto band = raised_band(history_, limits, request_.recipe.execution.memory.target_high);
  if (!band) return false;
  limits.target_low = band->low;
  limits.target_high = target_high_ = band->high;
  probe_.set_target_high(band->high);
  judge_anew();
  return true;
}

// What ended the search may have gone by a trial of the first update alone: where all that a confirmation
// runs takes the size into the band, or above it, that is where it is.
Planner::Capacity Planner::named(Capacity capacity) const {
  const MemoryRecipe& band = request_.recipe.execution.memory;
  const double fill = capacity.record.fill;
  if (fill > band.target_high) {
    capacity.reason = SearchReason::kAboveBand;
    log::warn("plan", cat("micro-batch ", capacity.size, " fills ", format_percent(fill),
                          " of the budget, above the band's ", format_percent(band.target_high, 0),
                          ", as even the smallest does; it is inside the budget, so it runs"));
    return capacity;
  }
  const bool ended_outside =
      capacity.reason == SearchReason::kGranularity || capacity.reason == SearchReason::kSearchLimit;
  if (ended_outside && capacity.record.fits() && fill >= band.target_low)
    capacity.reason = SearchReason::kInBand;
  return capacity;
}

Planner::Capacity Planner::search_confirmed(SearchLimits limits) {
  for (;;) {
    Capacity capacity = search(limits);
    if (capacity.size == 0) {
      if (!raise_the_edge(limits)) fail_smallest();
      continue;
    }
    if (capacity.record.confirmed) return named(capacity);
    // Found by an earlier trial: run it from clean state now. If it leaves the band, the search goes
    // on below it.
    const ProbeRecord short_trial = capacity.record;
    capacity.record = confirm(capacity.size);
    if (capacity.record.fits()) return named(capacity);
    distrust_short_trials(short_trial, capacity.record);
  }
}

Planner::Capacity Planner::take_typed(int64_t size) {
  const int64_t share = std::max(request_.share(), size);
  const int64_t samples = request_.recipe.batch.effective.value_or(size * request_.lanes);
  if (smallest_remainder(samples, request_.lanes, size) < smallest_piece()) {
    throw Error(ExitCode::kBadRecipe, "execution.micro_batch",
                cat(size, " leaves a remainder of one sample in a batch of ", share,
                    ", which batch normalisation cannot learn from"),
                cat("give another size, or leave it out: the search avoids such remainders"));
  }
  const ProbeRecord record = confirm(size);
  if (!record.confirmed || record.fill > 1) fail_typed(size);
  if (!record.fits()) {
    log::warn("plan", cat("micro-batch ", size, " fills ", format_percent(record.fill),
                          " of the budget, above the band's ",
                          format_percent(request_.recipe.execution.memory.target_high, 0),
                          "; it was asked for, so it runs"));
  }
  return {size, record, SearchReason::kFixed};
}

// Of the lanes that get most, and of those that get least.
std::vector<int64_t> Planner::shares_of_smaller_batches() const {
  std::vector<int64_t> shares;
  for (const int64_t batch : request_.smaller_batches) {
    shares.push_back(ceil_div(batch, request_.lanes));
    shares.push_back(std::max<int64_t>(1, batch / request_.lanes));
  }
  return shares;
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
                     .minimum = smallest_piece(),
                     .uneven = request_.recipe.batch.effective.value_or(0) % request_.lanes != 0,
                     .others = shares_of_smaller_batches()};
  for (;;) {
    micro_batch = executed_micro_batch(request);
    if (micro_batch == capacity.size) return capacity.record;
    const ProbeRecord record = confirm(micro_batch);
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

// The capacity of an earlier run, when a trial shows that it still is what it was found to be.
std::optional<Planner::Capacity> Planner::try_kept(const SearchLimits& limits) {
  const std::optional<SearchResult> kept = kept_capacity();
  if (!kept || kept->micro_batch < limits.minimum || kept->micro_batch > limits.cap) return std::nullopt;
  const ProbeRecord* const known = find_size(history_, kept->micro_batch);
  if (known != nullptr && !known->fits()) return std::nullopt;  // it was tried before the search began anew
  const ProbeRecord record = confirm(kept->micro_batch);
  const bool below_band = kept->reason == SearchReason::kInBand && record.fill < limits.target_low;
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
  const SearchLimits limits = this->limits();
  key_ = plan_key(request_, bench_, limits);
  const std::optional<Capacity> kept = try_kept(limits);
  plan.search.from_cache = kept.has_value();
  return kept ? *kept : search_confirmed(limits);
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

void Planner::describe_machine(BatchPlan& plan) const {
  plan.device = bench_.device->torch_device().str();
  plan.device_name = bench_.device->name();
  plan.precision = bench_.precision;
  plan.memory_format = bench_.memory_format;
  plan.world_size = bench_.ranks->place().world;
  plan.lanes = request_.lanes;
  plan.budget_bytes = bench_.device->budget_bytes();
  plan.budget_source = bench_.device->budget_source();
  if (!bench_.device->torch_device().is_cpu()) plan.others_bytes = bench_.device->used_by_others_bytes();
  plan.target_low = request_.recipe.execution.memory.target_low;
  plan.target_high = request_.recipe.execution.memory.target_high;
}

// Whether accumulation may come to pass. Asked before the search, because what the check compiles and
// keeps belongs to the memory that the search measures.
bool Planner::may_accumulate() const {
  const auto& typed = request_.recipe.execution.micro_batch;
  if (request_.lanes > 1) return true;  // whose sums are added as those of micro-batches are
  return request_.share() > 1 && !(typed && *typed >= request_.share());
}

void Planner::check_window(BatchPlan& plan, const std::optional<SplitVerdict>& verdict) const {
  if (plan.window == 1 && plan.lanes == 1) return;
  if (!bench_.task->splittable()) {
    if (plan.lanes > 1) {
      throw Error(ExitCode::kBadRecipe, "execution.lanes",
                  cat("the task mixes samples (splittable: false), and an update of ", plan.lanes,
                      " lanes computes them apart"),
                  "use one rank, and leave execution.lanes at auto");
    }
    throw Error(ExitCode::kDoesNotFit, "batch.effective",
                cat("the task mixes samples (splittable: false), so its ", request_.share(),
                    " samples must fit in one micro-batch, and only ", plan.search.micro_batch, " do"),
                "lower batch.effective, or raise execution.memory.budget");
  }
  plan.split_check = verdict->text();
  const bool sound =
      verdict->kind == SplitVerdict::Kind::kExact || verdict->kind == SplitVerdict::Kind::kNotChecked;
  sound ? log::info("plan", plan.split_check) : log::warn("plan", plan.split_check);
}

void Planner::check_effective(int64_t effective) const {
  if (effective < request_.lanes) {
    throw Error(ExitCode::kBadRecipe, "batch.effective",
                cat(effective, effective == 1 ? " sample is" : " samples are",
                    " less than one for each of the ", request_.lanes, " lanes of an update"),
                "raise it, use fewer ranks or fewer execution.lanes");
  }
  if (effective <= bench_.data.train->size()) return;
  const bool typed = request_.recipe.batch.effective.has_value();
  throw Error(ExitCode::kBadRecipe, typed ? "batch.effective" : "execution.micro_batch",
              cat(effective, " is more than the ", bench_.data.train->size(), " samples of the data set"),
              "lower it; an update never sees a sample twice");
}

// Micro-batches of one sample that batch normalisation can take no statistics of are refused, whatever would
// lead to them.
void Planner::check_single_samples() const {
  if (smallest_piece() == 1) return;
  const Recipe& r = request_.recipe;
  const auto& typed = r.execution.micro_batch;
  const auto& most = r.batch.limits.max_micro_batch;
  const auto& most_effective = r.batch.limits.max_effective;
  std::string key;
  if (r.batch.effective && *r.batch.effective / request_.lanes < 2) {
    key = "batch.effective";
  } else if (typed ? *typed < 2 && !r.batch.effective : most && *most < 2) {
    key = typed ? "execution.micro_batch" : "batch.limits.max_micro_batch";
  } else if (!r.batch.effective && !typed && most_effective && *most_effective / request_.lanes < 2) {
    key = "batch.limits.max_effective";
  } else if (!r.batch.effective && bench_.data.train->size() / request_.lanes < 2) {
    key = "data.train";
  }
  if (key.empty()) return;
  const std::string what = statistics_of_single_values(bench_, 1);
  if (what.empty()) return;
  const bool of_data = key == "data.train";
  throw Error(ExitCode::kBadRecipe, key,
              cat(of_data ? "has one sample a lane" : "makes micro-batches of one sample",
                  ", and batch normalisation has no statistics of single values (", what, ")"),
              cat(of_data ? "give more samples" : "set it to 2 or more for each lane",
                  ", or take a model without batch normalisation"));
}

// What a process holds beside the model may differ; all search from one figure.
void Planner::agree_on_the_floor() {
  if (!bench_.ranks->several()) return;
  int64_t most = 0;
  for (const Ranks::Note& note : bench_.ranks->meet(statement().floor()))
    most = std::max(most, note.get<int64_t>());
  agreed_floor_ = most;
}

// Of all ranks.
int64_t Planner::agreed_least(int64_t bytes) const {
  if (!bench_.ranks->several()) return bytes;
  int64_t least = bytes;
  for (const Ranks::Note& note : bench_.ranks->meet(bytes)) least = std::min(least, note.get<int64_t>());
  return least;
}

int64_t Planner::smallest_piece() const {
  return smallest_batch(bench_.task->module());
}

BatchPlan Planner::plan() {
  const Recipe& r = request_.recipe;
  check_effective(r.batch.effective.value_or(r.execution.micro_batch.value_or(1) * request_.lanes));
  check_single_samples();
  agree_on_the_floor();
  const Stopwatch watch;
  BatchPlan plan;
  const bool check = may_accumulate() && bench_.task->splittable();
  const auto verdict = check ? std::optional(check_split(bench_)) : std::nullopt;
  lower_budget();  // to what the trials that were made before show
  Capacity capacity = find_capacity(plan);
  describe_executed(plan, capacity);
  judge(capacity.record, bench_.device->budget_bytes(), target_high_);
  describe_machine(plan);
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
  plan.search.probes = all_;
  if (const ProbeRecord* const fast = smallest_fast(all_, r.execution.search.throughput_share))
    plan.search.fast_micro_batch = fast->micro_batch;
  for (const ProbeRecord& probe : all_) plan.search.samples += probe.samples;
  check_window(plan, verdict);
  decide_recording(plan);
  plan.search.seconds = watch.seconds();
  keep_plan(plan);
  return plan;
}

// Only what was searched here is worth keeping.
void Planner::keep_plan(const BatchPlan& plan) const {
  const SearchRecipe& search = request_.recipe.execution.search;
  if (request_.recipe.execution.micro_batch || plan.search.from_cache || !search.plan_cache) return;
  if (!bench_.ranks->first()) return;
  if (const auto cache = PlanCache::of_user()) cache->store(key_, plan);
}

}  // namespace autotrain
