#include "advise/advice.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "advise/advice_words.h"
#include "autotrain/error.h"
#include "base/json.h"
#include "base/text.h"
#include "base/units.h"
#include "measure/timing.h"
#include "report/metrics_file.h"
#include "report/noise_words.h"
#include "report/run_history.h"
#include "setup/horizon.h"
#include "study/statistics.h"
#include "study/trained_run.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

using Json = nlohmann::ordered_json;

double last_of(const Columns& updates, const char* name) {
  const std::vector<double>* const column = updates.find(name);
  return column == nullptr || column->empty() ? kNoNumber : column->back();
}

// Of the updates of so many samples that have a number; nothing: none has.
std::optional<double> median_in(const Columns& updates, const char* name, int64_t effective) {
  const std::vector<double>* const column = updates.find(name);
  const std::vector<double>* const sizes = updates.find("effective_batch");
  if (column == nullptr) return std::nullopt;
  std::vector<double> values;
  for (size_t i = 0; i < column->size(); ++i) {
    const bool counts = sizes == nullptr || (*sizes)[i] == static_cast<double>(effective);
    if (counts && std::isfinite((*column)[i])) values.push_back((*column)[i]);
  }
  return values.empty() ? std::nullopt : std::optional(median_of(std::move(values)));
}

// As the last row up to `row` has it in which it was measured.
std::optional<NoiseScale> noise_at(const Columns& updates, size_t row, const std::string& noise) {
  const std::vector<double>* const traces = updates.find(noise + ".trace");
  if (traces == nullptr) return std::nullopt;
  while (!std::isfinite((*traces)[row])) {
    if (row-- == 0) return std::nullopt;
  }
  const auto value = [&](const char* name) {
    const std::vector<double>* const column = updates.find(cat(noise, ".", name));
    return finite_or_null(column == nullptr ? kNoNumber : (*column)[row]);
  };
  return noise_scale_from_json(
      {{"samples", value("samples")}, {"low", value("low")}, {"high", value("high")}});
}

std::string why_no_noise(const ObservedRun& run, const Columns& updates) {
  if (updates.find("gradient_noise.trace") != nullptr)
    return "its updates do not tell it yet: train longer, for some hundred updates";
  if (run.recipe.execution.statistics == Statistics::kOff)
    return "execution.statistics is off: set it to auto";
  if (run.plan.window == 1 && run.plan.lanes == 1)
    return cat(
        "every update was one micro-batch of one lane: set execution.lanes: 2, or execution.micro_batch: ",
        std::max<int64_t>(1, run.plan.micro_batch / 2),
        "; autotrain advise --config does it for a short run");
  return "samples differ in length, so that windows are sorted by it, and no micro-batch stands for its "
         "window";
}

// A run that came to the end of its time or patience is all there is.
std::optional<double> part_seen(const ObservedRun& run) {
  const std::string stopped_by = text_in(read_json(run.folder / "summary.json"), "stopped_by");
  for (const StopReason over : {StopReason::kMinutes, StopReason::kPatience}) {
    if (stopped_by == to_string(over)) return 1;
  }
  const std::vector<PlanStage>& stages = run.plan.stages;  // a recipe counts in updates of the first one
  const int64_t effective = stages.empty() ? run.plan.effective_batch : stages.front().effective_batch;
  const auto all = samples_to_stop(run.recipe, run.dataset_size, effective);
  return all ? std::optional(static_cast<double>(run.samples) / static_cast<double>(*all)) : std::nullopt;
}

// Makes the plan that of the run's last batch.
void take_last_batch(BatchPlan& plan, const Columns& updates) {
  plan.effective_batch = std::llround(last_of(updates, "effective_batch"));
  plan.micro_batch = std::min(plan.micro_batch, ceil_div(plan.effective_batch, plan.world_size));
  plan.window = ceil_div(plan.effective_batch, plan.micro_batch * plan.world_size);
}

void read_metrics_into(ObservedRun& run) {
  const Columns updates = read_history(run.folder / "metrics.jsonl").updates;
  if (updates.rows() == 0) {
    throw Error(ExitCode::kMissingFile, run.folder.string(), "holds no update to learn from",
                "train it first, or give --config for a short run");
  }
  run.updates = std::llround(last_of(updates, "update"));
  run.samples = std::llround(last_of(updates, "samples"));
  run.seconds = last_of(updates, "training_seconds");
  run.dataset_size = std::llround(last_of(updates, "samples") / last_of(updates, "epoch"));
  run.seen = part_seen(run);
  if (run.recipe.batch.changes()) take_last_batch(run.plan, updates);
  const auto median = [&](const char* name) { return median_in(updates, name, run.plan.effective_batch); };
  run.update_seconds = median("activity_seconds.update").value_or(0);
  run.passes_seconds =
      median("activity_seconds.forward").value_or(0) + median("activity_seconds.backward").value_or(0);
  if (run.plan.world_size > 1) run.exchange_seconds = median("activity_seconds.communication");
  run.plain_noise = noise_at(updates, updates.rows() - 1, "gradient_noise");
  run.preconditioned_noise = noise_at(updates, updates.rows() - 1, "preconditioned_noise");
  run.noise = run.by_preconditioned() ? run.preconditioned_noise : run.plain_noise;
  run.early_noise = noise_at(updates, (updates.rows() - 1) / 4,
                             run.by_preconditioned() ? "preconditioned_noise" : "gradient_noise");
  if (!run.noise) run.no_noise_because = why_no_noise(run, updates);
}

Json ranged_to_json(const std::optional<Ranged>& ranged) {
  if (!ranged) return nullptr;
  return {{"value", or_null(ranged->value)}, {"low", ranged->low}, {"high", ranged->high}};
}

Json row_to_json(const BatchRow& row) {
  return {{"effective_batch", row.effective},
          {"micro_batch", row.micro_batch},
          {"window", row.window},
          {"samples_per_second", row.samples_per_second},
          {"measured", row.measured},
          {"peak_bytes", or_null(row.peak_bytes)},
          {"updates", ranged_to_json(row.updates)},
          {"samples", ranged_to_json(row.samples)},
          {"seconds", ranged_to_json(row.seconds)}};
}

template <class Rows, class ToJson>
Json list_of(const Rows& rows, const ToJson& to_json) {
  Json list = Json::array();
  for (const auto& row : rows) list.push_back(to_json(row));
  return list;
}

// A recipe whose batch changes says no single one.
void set_lines(Advice& a) {
  const BatchPlan& plan = a.run.plan;
  const int64_t to = a.batch.rows[a.batch.advised].effective;
  a.lines.clear();
  if (to != plan.effective_batch && !a.run.recipe.batch.changes())
    a.lines = recipe_lines(a.run.recipe, {plan.effective_batch, to, plan.lr.scaled});
}

// Whether a branch between the run's own batch and the advised one, or of that, takes the advice back.
bool speaks_against(const Verification& verification, int64_t advised) {
  return std::ranges::any_of(verification.branches, [&](const BranchVerdict& branch) {
    return branch.losses.factor < 1
               ? branch.losses.effective >= advised && branch.shows_no_gain()
               : branch.losses.effective <= advised && branch.verdict == BranchStanding::kWorse;
  });
}

// The row up to the measured critical batch that needs the least time for equal samples, if that is
// worthwhile.
std::optional<size_t> fastest_without_loss(const Advice& a) {
  size_t best = a.batch.own;
  for (size_t i = a.batch.own + 1; i < a.batch.rows.size(); ++i) {
    if (a.batch.rows[i].effective > a.verification->critical) break;
    if (a.batch.rows[i].samples_per_second > a.batch.rows[best].samples_per_second) best = i;
  }
  const double gain = a.batch.rows[a.batch.own].samples_per_second / a.batch.rows[best].samples_per_second;
  return gain <= 1 - kWorthwhile && !a.verification->exceeded ? std::optional(best) : std::nullopt;
}

}  // namespace

ObservedRun observe_run(const fs::path& folder, const std::vector<std::string>& overrides) {
  const TrainedRun trained = open_trained_run({.folder = folder}, overrides);
  ObservedRun run{.folder = folder, .recipe = trained.recipe, .plan = trained.plan};
  read_metrics_into(run);
  return run;
}

ExecutionModel execution_of(const ObservedRun& run) {
  ExecutionModel execution{.update_seconds = run.update_seconds,
                           .capacity = run.plan.search.micro_batch,
                           .cut = run.recipe.execution.cut,
                           .exchange_seconds = run.exchange_seconds};
  std::map<int64_t, int64_t> peaks = {{run.plan.micro_batch, run.plan.peak_bytes}};
  for (const ProbeRecord& probe : run.plan.search.probes) {
    if (probe.fits()) peaks[probe.micro_batch] = std::max(peaks[probe.micro_batch], probe.peak_bytes);
  }
  execution.peaks.assign(peaks.begin(), peaks.end());
  return execution;
}

std::vector<int64_t> micro_batches_of(const ObservedRun& run) {
  const ExecutionModel execution = execution_of(run);
  const int64_t devices = run.plan.world_size;
  std::set<int64_t> sizes = {run.plan.micro_batch};
  for (const int64_t e : batch_sizes(run.plan.effective_batch, devices, run.dataset_size, execution.capacity,
                                     run.noise_of_whole_run()))
    sizes.insert(execution.micro_batch_of(ceil_div(e, devices)));
  return {sizes.begin(), sizes.end()};
}

std::vector<SpeedPoint> recorded_speeds(const ObservedRun& run) {
  std::map<int64_t, double> seconds;
  for (const ProbeRecord& probe : run.plan.search.probes) {  // of others the first update was timed
    if (probe.fits() && probe.confirmed && probe.samples_per_second > 0)
      seconds[probe.micro_batch] = static_cast<double>(probe.micro_batch) / probe.samples_per_second;
  }
  const double share = static_cast<double>(run.plan.micro_batch * run.plan.world_size) /
                       static_cast<double>(run.plan.effective_batch);
  if (run.passes_seconds > 0)
    seconds[run.plan.micro_batch] = run.passes_seconds * std::min(1.0, share) + run.update_seconds;
  std::vector<SpeedPoint> points;
  for (const auto& [micro_batch, each] : seconds) points.push_back({micro_batch, each});
  return points;
}

Advice advise(ObservedRun run, std::vector<SpeedPoint> speeds) {
  Advice advice{.run = std::move(run)};
  const ObservedRun& r = advice.run;
  advice.execution = execution_of(r);
  advice.execution.points = std::move(speeds);
  for (const SpeedPoint& point : advice.execution.points)  // no call is shorter than its last part
    advice.execution.update_seconds = std::min(advice.execution.update_seconds, point.seconds);
  advice.batch = advise_batch({.execution = advice.execution,
                               .noise = r.noise_of_whole_run(),
                               .own = r.plan.effective_batch,
                               .devices = r.plan.world_size,
                               .dataset_size = r.dataset_size,
                               .throughput_share = r.recipe.execution.search.throughput_share});
  set_lines(advice);
  return advice;
}

void heed(Advice& a, Verification verification) {
  a.verification = std::move(verification);
  if (const BatchVerdict said = a.batch.verdict;
      said == BatchVerdict::kLower || said == BatchVerdict::kRaise) {
    if (!speaks_against(*a.verification, a.batch.rows[a.batch.advised].effective)) return;
    a.refuted = std::exchange(a.batch.advised, a.batch.own);
    a.batch.verdict = BatchVerdict::kKeep;
  }
  if (const auto faster = fastest_without_loss(a)) {
    a.batch.advised = *faster;
    a.batch.verdict = BatchVerdict::kRaise;
    a.by_branches = true;
  }
  set_lines(a);
}

Json advice_to_json(const Advice& a) {
  const BatchAdvice& b = a.batch;
  return {
      {"run", a.run.folder.string()},
      {"device_name", a.run.plan.device_name},
      {"effective_batch", a.run.plan.effective_batch},
      {"world_size", a.run.plan.world_size},
      {"updates", a.run.updates},
      {"samples", a.run.samples},
      {"seconds", a.run.seconds},
      {"seen", or_null(a.run.seen)},
      {"verdict", to_string(b.verdict)},
      {"advised", b.rows[b.advised].effective},
      {"unsure", b.unsure},
      {"by_branches", a.by_branches},
      {"refuted", a.refuted ? Json(b.rows[*a.refuted].effective) : Json(nullptr)},
      {"knee", b.knee},
      {"noise_scale", noise_scale_to_json(a.run.noise)},
      {"by_preconditioned", a.run.by_preconditioned()},
      {"plain_noise_scale", noise_scale_to_json(a.run.plain_noise)},
      {"preconditioned_noise_scale", noise_scale_to_json(a.run.preconditioned_noise)},
      {"no_noise_because", a.run.no_noise_because},
      {"update_seconds", a.execution.update_seconds},
      {"exchange_seconds", or_null(a.execution.exchange_seconds)},
      {"capacity", a.execution.capacity},
      {"speeds", list_of(a.execution.points,
                         [](const SpeedPoint& p) {
                           return Json{{"micro_batch", p.micro_batch},
                                       {"seconds", p.seconds},
                                       {"repeats", p.repeats},
                                       {"uncertainty", p.uncertainty}};
                         })},
      {"rows", list_of(b.rows, row_to_json)},
      {"devices", list_of(b.devices,
                          [](const DeviceRow& d) {
                            return Json{{"devices", d.devices},
                                        {"seconds_at_own", finite_or_null(d.seconds_at_own)},
                                        {"best_effective", d.best_effective},
                                        {"seconds_at_best", d.seconds_at_best}};
                          })},
      {"most_devices_own", or_null(b.most_devices_own)},
      {"most_devices", or_null(b.most_devices)},
      {"recipe_lines",
       list_of(a.lines,
               [](const RecipeLine& l) {
                 return Json{{"key", l.path}, {"before", l.before}, {"after", l.after}, {"reason", l.reason}};
               })},
      {"sentences", sentences_of(a)},
      {"verification", a.verification ? verification_to_json(*a.verification) : Json(nullptr)}};
}

}  // namespace autotrain
