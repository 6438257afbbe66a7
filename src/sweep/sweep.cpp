#include "sweep/sweep.h"

#include <algorithm>
#include <map>
#include <set>

#include "autotrain/error.h"
#include "autotrain/trainer.h"
#include "base/text.h"
#include "base/units.h"
#include "recipe/axes.h"
#include "report/column.h"
#include "setup/assembly.h"
#include "step/precision.h"
#include "study/recipe_files.h"
#include "sweep/point_memory.h"
#include "sweep/sweep_analysis.h"
#include "sweep/sweep_point.h"
#include "sweep/sweep_tables.h"
#include "sweep/varied_recipes.h"

namespace autotrain {
namespace {

// The recipe with only what decides what a point measures: other batches and bounds may be asked for later.
Recipe what_counts(Recipe recipe) {
  recipe.sweep = SweepRecipe{.mode = recipe.sweep.mode, .max_seconds = recipe.sweep.max_seconds};
  return recipe;
}

enum class Kind { kModel, kLargest, kPoint, kEndToEnd };

struct Measurement {
  Kind kind = Kind::kModel;
  size_t variant = 0;
  int64_t batch = 0;  // of kPoint and kEndToEnd
  int64_t round = 0;
};

nlohmann::ordered_json measure(const Recipe& recipe, Kind kind, int64_t batch) {
  switch (kind) {
    case Kind::kModel: return measure_variant(recipe);
    case Kind::kLargest: return measure_largest(recipe);
    case Kind::kPoint: return measure_point(recipe, batch);
    case Kind::kEndToEnd: break;
  }
  return measure_end_to_end(recipe, batch);
}

std::string words_for(const Measurement& m) {
  switch (m.kind) {
    case Kind::kModel: return ", the model as a whole";
    case Kind::kLargest: return ", the largest batch";
    case Kind::kPoint: return cat(", batch ", m.batch);
    case Kind::kEndToEnd: break;
  }
  return cat(", batch ", m.batch, " end to end");
}

std::string result_words(const Measurement& m, const StudyResult& result) {
  if (result.failed()) return ": " + first_line(result.failure);
  switch (m.kind) {
    case Kind::kModel: return ": counted, and the machine measured";
    case Kind::kLargest: return cat(": ", result.value.at("batch").get<int64_t>());
    case Kind::kPoint: {
      const SweepPoint point = summarise_point(m.batch, {result});
      return cat(": ", milliseconds(point.p50_seconds), " ms, ", format_rate(point.samples_per_second),
                 " samples/s");
    }
    case Kind::kEndToEnd: break;
  }
  return cat(": ", format_rate(summarise_end_to_end({result}).samples_per_second), " samples/s");
}

class Sweeping {
 public:
  explicit Sweeping(const SweepRequest& request) : request_(request) {
    const Recipe recipe = load_recipe(request.config, request.overrides);
    batches_ = *parse_batches(recipe.sweep.batches);
    rounds_ = recipe.sweep.rounds;
    VariedRecipes variants = varied_recipes(recipe, request.config, request.overrides);
    check_mode(recipe.sweep.mode);
    sweep_ = {.name = recipe.name,
              .mode = recipe.sweep.mode,
              .key = variants.key,
              .latency_ms = recipe.sweep.latency_ms,
              .device_figures = recipe.sweep.device_figures.value_or("")};
    variants_ = std::move(variants.all);
    for (const VariedRecipe& variant : variants_) {
      sweep_.variants.push_back({.value = variant.value});
      if (recipe.sweep.mode == SweepMode::kTraining) check_trains(variant.recipe.execution.precision);
    }
  }

  Sweep run() {
    sizes_.assign(variants_.size(), batches_.until_no_gain ? std::vector<int64_t>{} : batches_.sizes);
    if (batches_.until_no_gain) grow();
    execute(all_runs(), /*to_the_end=*/true);
    return collected();
  }

 private:
  void check_mode(SweepMode mode) const {
    if (mode == SweepMode::kInference) return;
    if (request_.largest) {
      throw Error(ExitCode::kUsage, "--largest", "finds batches of forward passes",
                  "leave --mode training out; autotrain plan finds those of updates");
    }
    if (request_.end_to_end) {
      throw Error(ExitCode::kUsage, "--end-to-end", "is of inference: it ends with the model's outputs",
                  "leave --mode training out; a training run's page shows what its updates wait for");
    }
  }

  static std::string key_of(const Measurement& m) {
    switch (m.kind) {
      case Kind::kModel: return cat("v", m.variant, "-model");
      case Kind::kLargest: return cat("v", m.variant, "-largest");
      case Kind::kPoint: break;
      case Kind::kEndToEnd: return cat("v", m.variant, "-end-to-end-", m.batch, "-round-", m.round);
    }
    return cat("v", m.variant, "-batch-", m.batch, "-round-", m.round);
  }

  // The same of all rounds.
  static std::string key_of_rounds(const Measurement& m) {
    return cat("v", m.variant, "-", static_cast<int>(m.kind), "-", m.batch);
  }

  StudyRun make_run(const Measurement& m) {
    const auto& [value, recipe, files] = variants_[m.variant];
    measurements_[key_of(m)] = m;
    nlohmann::ordered_json definition = recipe_definition(what_counts(recipe), files);
    definition["batch"] = m.batch;
    definition["round"] = m.round;
    return {.name = key_of(m),
            .variant = key_of_rounds(m),
            .definition = std::move(definition),
            .work = [&recipe = recipe, m] { return measure(recipe, m.kind, m.batch); },
            .label = label_of(sweep_, sweep_.variants[m.variant]) + words_for(m)};
  }

  // The models first; then round after round, each batch of all variants one after the other, every other
  // round from the largest down: what slows down steadily does so for all alike.
  std::vector<StudyRun> all_runs() {
    std::vector<StudyRun> runs;
    for (size_t v = 0; v < variants_.size(); ++v) runs.push_back(make_run({Kind::kModel, v}));
    for (size_t v = 0; request_.largest && v < variants_.size(); ++v)
      runs.push_back(make_run({Kind::kLargest, v}));
    std::set<int64_t> all;
    for (const auto& some : sizes_) all.insert(some.begin(), some.end());
    std::vector<int64_t> batches(all.begin(), all.end());
    for (int64_t round = 0; round < rounds_; ++round, std::ranges::reverse(batches)) {
      for (const int64_t batch : batches) {
        for (size_t v = 0; v < variants_.size(); ++v) {
          if (std::ranges::count(sizes_[v], batch) == 0) continue;
          runs.push_back(make_run({Kind::kPoint, v, batch, round}));
          if (request_.end_to_end) runs.push_back(make_run({Kind::kEndToEnd, v, batch, round}));
        }
      }
    }
    return runs;
  }

  // Doubles each variant's batch until its throughput stops growing, in the first round only.
  void grow() {
    std::vector<Growth> growth(variants_.size());
    for (const int64_t batch : batches_.sizes) {
      std::vector<StudyRun> runs;
      for (size_t v = 0; v < variants_.size(); ++v) {
        if (!growth[v].goes_on()) continue;
        sizes_[v].push_back(batch);
        runs.push_back(make_run({Kind::kPoint, v, batch}));
      }
      execute(runs, /*to_the_end=*/false);
      for (size_t v = 0; v < variants_.size(); ++v) {
        if (growth[v].goes_on()) growth[v].add(summarise_point(batch, rounds_of(Kind::kPoint, v, batch)));
      }
    }
  }

  void execute(const std::vector<StudyRun>& runs, bool to_the_end) {
    run_study(runs, {.kind = "sweep",
                     .folder = request_.folder,
                     .more_may_follow = !to_the_end,
                     .wanted =
                         [&](const StudyRun& run) {
                           const Measurement& m = measurements_.at(run.name);
                           return !has_failed(m.kind, m.variant, m.batch);
                         },
                     .on_progress = request_.on_progress,
                     .on_result = [&](const StudyResult& result) { note(result); }});
  }

  void note(const StudyResult& result) {
    const bool is_new = results_.insert_or_assign(result.name, result).second;
    const Measurement& m = measurements_.at(result.name);
    if (result.failed()) failed_.insert(key_of_rounds(m));
    if (!is_new || result.kept) return;
    request_.on_result(label_of(sweep_, sweep_.variants[m.variant]) + words_for(m) + result_words(m, result));
    request_.on_sweep(collected());
  }

  // No further round of it is asked for in this call. What a batch is refused alone is refused with loading.
  bool has_failed(Kind kind, size_t variant, int64_t batch) const {
    return failed_.contains(key_of_rounds({kind, variant, batch})) ||
           (kind == Kind::kEndToEnd && has_failed(Kind::kPoint, variant, batch));
  }

  std::vector<StudyResult> rounds_of(Kind kind, size_t variant, int64_t batch) const {
    std::vector<StudyResult> rounds;
    for (int64_t round = 0; round < rounds_; ++round) {
      const auto found = results_.find(key_of({kind, variant, batch, round}));
      if (found != results_.end()) rounds.push_back(found->second);
    }
    return rounds;
  }

  // With what is finished.
  Sweep collected() const {
    Sweep sweep = sweep_;
    for (size_t v = 0; v < variants_.size(); ++v) {
      SweepVariant& variant = sweep.variants[v];
      const auto model = results_.find(key_of({Kind::kModel, v}));
      if (model == results_.end()) {
        ++sweep.unfinished;
      } else {
        take_model(variants_[v].recipe, model->second, variant);
      }
      if (request_.largest) take_largest(v, sweep);
      for (const int64_t batch : sizes_[v]) {
        const std::vector<StudyResult> rounds = rounds_so_far(Kind::kPoint, v, batch, sweep);
        const std::vector<StudyResult> pipelines = request_.end_to_end
                                                       ? rounds_so_far(Kind::kEndToEnd, v, batch, sweep)
                                                       : std::vector<StudyResult>{};
        if (rounds.empty()) continue;
        variant.points.push_back(summarise_point(batch, rounds));
        if (variant.points.back().failure.empty()) variant.points.back().memory = summarise_memory(rounds);
        if (!pipelines.empty()) variant.end_to_end[batch] = summarise_end_to_end(pipelines);
      }
      if (const auto knee = find_knee(latencies_of(variant)))
        variant.products = rounds_of(Kind::kPoint, v, knee->best_batch).front().value.at("products");
    }
    analyse(sweep);
    return sweep;
  }

  // Also counts those that are still to come.
  std::vector<StudyResult> rounds_so_far(Kind kind, size_t v, int64_t batch, Sweep& sweep) const {
    std::vector<StudyResult> rounds = rounds_of(kind, v, batch);
    if (!has_failed(kind, v, batch)) sweep.unfinished += rounds_ - static_cast<int64_t>(rounds.size());
    return rounds;
  }

  void take_largest(size_t v, Sweep& sweep) const {
    const auto found = results_.find(key_of({Kind::kLargest, v}));
    if (found == results_.end()) {
      ++sweep.unfinished;
    } else if (found->second.failed()) {
      sweep.variants[v].largest = LargestBatch{.failure = first_line(found->second.failure)};
    } else {
      sweep.variants[v].largest = largest_from_json(found->second.value);
    }
  }

  const SweepRequest& request_;
  Sweep sweep_;
  BatchAxis batches_;
  int64_t rounds_ = 1;
  std::vector<VariedRecipe> variants_;
  std::vector<std::vector<int64_t>> sizes_;  // batches of each variant
  std::map<std::string, StudyResult> results_;
  std::map<std::string, Measurement> measurements_;  // by the names of their runs
  std::set<std::string> failed_;                     // by key_of_rounds
};

}  // namespace

void Growth::add(const SweepPoint& point) {
  constexpr double kGain = 1.03;  // of throughput, for another doubling to be worth it
  const bool gains = point.samples_per_second > kGain * best_;
  idle_ = !point.failure.empty() ? kPatience : gains ? 0 : idle_ + 1;
  best_ = std::max(best_, point.samples_per_second);
}

std::optional<double> SweepPoint::between_share() const {
  if (!products_share || !others_share) return std::nullopt;
  return 1 - *products_share - *others_share;
}

const SweepPoint& SweepVariant::point_of(int64_t batch) const {
  return *std::ranges::find(points, batch, &SweepPoint::batch);
}

Sweep run_sweep(const SweepRequest& request) {
  return Sweeping(request).run();
}

void check_sweep(const SweepRequest& request) {
  const Sweeping checked(request);
}

}  // namespace autotrain
