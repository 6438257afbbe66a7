#include "sweep/sweep.h"

#include <algorithm>
#include <map>
#include <set>

#include "autotrain/error.h"
#include "autotrain/trainer.h"
#include "base/text.h"
#include "recipe/axes.h"
#include "recipe/compare.h"
#include "step/precision.h"
#include "sweep/sweep_analysis.h"
#include "sweep/sweep_point.h"
#include "trainer/assembly.h"
#include "trainer/catalog.h"

namespace autotrain {
namespace {

constexpr double kGain = 1.03;      // of throughput, for another doubling to be worth it
constexpr int kPatience = 2;        // doublings without it
constexpr int64_t kWholeModel = 0;  // stands for the batch of what does not depend on it
constexpr int64_t kLargest = -1;    // stands for the batch that is searched

// The recipe with only what decides what a point measures: other batches and bounds may be asked for later.
Recipe what_counts(Recipe recipe) {
  recipe.sweep = SweepRecipe{.mode = recipe.sweep.mode, .max_seconds = recipe.sweep.max_seconds};
  return recipe;
}

struct Measurement {
  size_t variant = 0;
  int64_t batch = kWholeModel;
  int64_t round = 0;
};

class Sweeping {
 public:
  explicit Sweeping(const SweepOptions& options) : options_(options) {
    const Recipe recipe = load_recipe(options.config, options.overrides);
    batches_ = *parse_batches(recipe.sweep.batches);
    rounds_ = recipe.sweep.rounds;
    const Axis axis = recipe.sweep.vary ? *parse_axis(*recipe.sweep.vary) : Axis{"", {""}};
    if (axis.key.starts_with("sweep.")) {
      throw Error(ExitCode::kBadRecipe, "sweep.vary", axis.key + " is part of the sweep itself",
                  "vary a key of the model or of execution; batches are sweep.batches");
    }
    if (options.largest && recipe.sweep.mode != SweepMode::kInference) {
      throw Error(ExitCode::kUsage, "--largest", "finds batches of forward passes",
                  "leave --mode training out; autotrain plan finds those of updates");
    }
    sweep_ = {.name = recipe.name,
              .mode = recipe.sweep.mode,
              .key = axis.key,
              .latency_ms = recipe.sweep.latency_ms,
              .device_figures = recipe.sweep.device_figures.value_or("")};
    for (const std::string& value : axis.values) {
      sweep_.variants.push_back({.value = value});
      recipes_.push_back(recipe_with(value));
      if (recipe.sweep.mode == SweepMode::kTraining) check_trains(recipes_.back().execution.precision);
    }
  }

  Sweep run() {
    sizes_.assign(recipes_.size(), batches_.until_no_gain ? std::vector<int64_t>{} : batches_.sizes);
    if (batches_.until_no_gain) grow();
    execute(all_runs(), /*to_the_end=*/true);
    return collected();
  }

 private:
  Recipe recipe_with(const std::string& value) const {
    std::vector<std::string> overrides = options_.overrides;
    if (!sweep_.key.empty()) overrides.push_back(sweep_.key + "=" + value);
    return load_recipe(options_.config, overrides);
  }

  static std::string key_of(const Measurement& m) {
    if (m.batch == kWholeModel) return cat("v", m.variant, "-model");
    if (m.batch == kLargest) return cat("v", m.variant, "-largest");
    return cat("v", m.variant, "-batch-", m.batch, "-round-", m.round);
  }

  StudyRun make_run(const Measurement& m) {
    const Recipe& recipe = recipes_[m.variant];
    measurements_[key_of(m)] = m;
    return {.name = key_of(m),
            .variant = cat("v", m.variant, "-", m.batch),
            .definition = {{"recipe", values_of(what_counts(recipe), catalog())},
                           {"batch", m.batch},
                           {"round", m.round}},
            .work = [&recipe, batch = m.batch] { return measure(recipe, batch); },
            .label = label_of(sweep_, sweep_.variants[m.variant]) + words_for(m.batch)};
  }

  static nlohmann::ordered_json measure(const Recipe& recipe, int64_t batch) {
    if (batch == kWholeModel) return measure_variant(recipe);
    return batch == kLargest ? measure_largest(recipe) : measure_point(recipe, batch);
  }

  static std::string words_for(int64_t batch) {
    if (batch == kWholeModel) return " as a whole";
    return batch == kLargest ? ", the largest batch" : cat(", batch ", batch);
  }

  // The models first; then round after round, each batch of all variants one after the other, every other
  // round from the largest down: what slows down steadily does so for all alike.
  std::vector<StudyRun> all_runs() {
    std::vector<StudyRun> runs;
    for (size_t v = 0; v < recipes_.size(); ++v) runs.push_back(make_run({v, kWholeModel}));
    for (size_t v = 0; options_.largest && v < recipes_.size(); ++v) runs.push_back(make_run({v, kLargest}));
    std::set<int64_t> all;
    for (const auto& some : sizes_) all.insert(some.begin(), some.end());
    std::vector<int64_t> batches(all.begin(), all.end());
    for (int64_t round = 0; round < rounds_; ++round, std::ranges::reverse(batches)) {
      for (const int64_t batch : batches) {
        for (size_t v = 0; v < recipes_.size(); ++v) {
          if (std::ranges::count(sizes_[v], batch) > 0) runs.push_back(make_run({v, batch, round}));
        }
      }
    }
    return runs;
  }

  // Doubles each variant's batch until its throughput stops growing, in the first round only.
  void grow() {
    std::vector<double> best(recipes_.size(), 0);
    std::vector<int> idle(recipes_.size(), 0);
    for (const int64_t batch : batches_.sizes) {
      std::vector<StudyRun> runs;
      for (size_t v = 0; v < recipes_.size(); ++v) {
        if (idle[v] >= kPatience) continue;
        sizes_[v].push_back(batch);
        runs.push_back(make_run({v, batch}));
      }
      execute(runs, /*to_the_end=*/false);
      for (size_t v = 0; v < recipes_.size(); ++v) {
        if (idle[v] >= kPatience) continue;
        const SweepPoint point = summarise_point(batch, rounds_of(v, batch));
        const bool gains = point.samples_per_second > kGain * best[v];
        idle[v] = !point.failure.empty() ? kPatience : gains ? 0 : idle[v] + 1;
        best[v] = std::max(best[v], point.samples_per_second);
      }
    }
  }

  // Where more may follow nobody knows how long it takes.
  void execute(const std::vector<StudyRun>& runs, bool to_the_end) {
    run_study(runs, {.kind = "sweep",
                     .folder = options_.folder,
                     .wanted =
                         [&](const StudyRun& run) {
                           const Measurement& m = measurements_.at(run.name);
                           return !failed_.contains({m.variant, m.batch});
                         },
                     .on_progress =
                         [&](StudyProgress progress) {
                           if (!to_the_end) progress.seconds_left.reset();
                           options_.on_progress(progress);
                         },
                     .on_result = [&](const StudyResult& result) { note(result); }});
  }

  void note(const StudyResult& result) {
    const bool is_new = results_.insert_or_assign(result.name, result).second;
    const Measurement& m = measurements_.at(result.name);
    if (result.failed()) failed_.insert({m.variant, m.batch});
    if (!is_new || result.kept) return;
    options_.on_result(label_of(sweep_, sweep_.variants[m.variant]), m.batch, result);
    options_.on_sweep(collected());
  }

  std::vector<StudyResult> rounds_of(size_t variant, int64_t batch) const {
    std::vector<StudyResult> rounds;
    for (int64_t round = 0; round < rounds_; ++round) {
      const auto found = results_.find(key_of({variant, batch, round}));
      if (found != results_.end()) rounds.push_back(found->second);
    }
    return rounds;
  }

  // With what is finished.
  Sweep collected() const {
    Sweep sweep = sweep_;
    for (size_t v = 0; v < recipes_.size(); ++v) {
      SweepVariant& variant = sweep.variants[v];
      const auto model = results_.find(key_of({v, kWholeModel}));
      if (model == results_.end()) {
        ++sweep.unfinished;
      } else {
        take_model(recipes_[v], model->second, variant);
      }
      if (options_.largest) take_largest(v, sweep);
      for (const int64_t batch : sizes_[v]) {
        const std::vector<StudyResult> rounds = rounds_of(v, batch);
        if (!failed_.contains({v, batch})) sweep.unfinished += rounds_ - static_cast<int64_t>(rounds.size());
        if (!rounds.empty()) variant.points.push_back(summarise_point(batch, rounds));
      }
      if (const auto knee = find_knee(latencies_of(variant)))
        variant.products = rounds_of(v, knee->best_batch).front().value.at("products");
    }
    analyse(sweep);
    return sweep;
  }

  void take_largest(size_t v, Sweep& sweep) const {
    const auto found = results_.find(key_of({v, kLargest}));
    if (found == results_.end()) {
      ++sweep.unfinished;
    } else if (found->second.failed()) {
      sweep.variants[v].largest = LargestBatch{.failure = first_line(found->second.failure)};
    } else {
      sweep.variants[v].largest = largest_from_json(found->second.value);
    }
  }

  const SweepOptions& options_;
  Sweep sweep_;
  BatchAxis batches_;
  int64_t rounds_ = 1;
  std::vector<Recipe> recipes_;
  std::vector<std::vector<int64_t>> sizes_;  // batches of each variant
  std::map<std::string, StudyResult> results_;
  std::map<std::string, Measurement> measurements_;  // by the names of their runs
  std::set<std::pair<size_t, int64_t>> failed_;  // {variant, batch}: no further round is asked in this call
};

}  // namespace

std::optional<double> SweepPoint::between_share() const {
  if (!products_share || !others_share) return std::nullopt;
  return 1 - *products_share - *others_share;
}

const SweepPoint& SweepVariant::point_of(int64_t batch) const {
  return *std::ranges::find(points, batch, &SweepPoint::batch);
}

Sweep run_sweep(const SweepOptions& options) {
  return Sweeping(options).run();
}

void check_sweep(const SweepOptions& options) {
  const Sweeping checked(options);
}

}  // namespace autotrain
