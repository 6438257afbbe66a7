#include "sweep/decode_sweep.h"

#include <algorithm>
#include <map>
#include <set>

#include "autotrain/error.h"
#include "autotrain/trainer.h"
#include "base/text.h"
#include "base/units.h"
#include "data/datasets.h"
#include "recipe/axes.h"
#include "report/column.h"
#include "setup/data_places.h"
#include "study/recipe_files.h"
#include "sweep/decode_columns.h"
#include "sweep/decode_point.h"
#include "sweep/varied_recipes.h"

namespace autotrain {
namespace {

const std::vector<int64_t> kUsualBatches = {1, 2, 4, 8, 16, 32};

Recipe what_a_step_depends_on(Recipe recipe) {
  recipe.sweep = SweepRecipe{.max_seconds = recipe.sweep.max_seconds};
  return recipe;
}

std::vector<int64_t> sizes_in(const std::string& text, const char* option) {
  const auto axis = parse_batches(text);
  if (axis && !axis->until_no_gain) return axis->sizes;
  throw Error(ExitCode::kUsage, option, quote(text) + " are no sizes", "give 64,256 or 64..4096");
}

// What is measured: the model where `batch` is 0, a comparison of batches where `requests` is not.
struct DecodeMeasurement {
  size_t variant = 0;
  int64_t batch = 0, context = 0, round = 0, requests = 0;

  std::string name() const {
    const std::string of = cat("v", variant, "-");
    if (batch == 0) return of + "model";
    const std::string size = cat("batch-", batch, "-context-", context);
    return requests > 0 ? cat(of, size, "-requests-", requests) : cat(of, size, "-round-", round);
  }
  std::string words() const {
    if (batch == 0) return ", the model as a whole";
    return requests > 0 ? cat(", ", requests, " requests in ", batch, " slots")
                        : cat(", batch ", batch, " at context ", context);
  }
  nlohmann::ordered_json measure(const Recipe& recipe) const {
    if (batch == 0) return measure_decoder(recipe);
    return requests > 0 ? measure_batching(recipe, batch, context, requests)
                        : measure_decode_point(recipe, batch, context);
  }
};

class DecodeSweeping {
 public:
  explicit DecodeSweeping(const DecodeSweepRequest& request) : request_(request) {
    const Recipe recipe = load_recipe(request.config, request.overrides);
    const BatchAxis batches = *parse_batches(recipe.sweep.batches);
    batches_ = batches.until_no_gain ? kUsualBatches : batches.sizes;
    rounds_ = recipe.sweep.rounds;
    VariedRecipes variants = varied_recipes(recipe, request.config, request.overrides);
    sweep_ = {.name = recipe.name, .key = variants.key};
    variants_ = std::move(variants.all);
    for (const VariedRecipe& variant : variants_) sweep_.variants.push_back({.value = variant.value});
    contexts_ =
        request.contexts.empty() ? std::vector{context_of(recipe)} : sizes_in(request.contexts, "--contexts");
  }

  DecodeSweep run() {
    run_study(all_runs(), {.kind = "decode sweep",
                           .folder = request_.folder,
                           .wanted = [&](const StudyRun& run) { return !failed_.contains(run.variant); },
                           .on_progress = request_.on_progress,
                           .on_result = [&](const StudyResult& result) { note(result); }});
    return collected();
  }

 private:
  static int64_t context_of(const Recipe& recipe) {
    const DatasetInfo info = make_dataset(training_place(recipe))->info();
    if (info.vocabulary > 0) return info.input_shape[0];
    throw Error(ExitCode::kBadRecipe, "data.train",
                "has no tokens, and --decode reads them one after the other",
                "use a data set of tokens and model transformer, or leave --decode out");
  }

  StudyRun run_of(const DecodeMeasurement& m) {
    const auto& [value, recipe, files] = variants_[m.variant];
    measurements_[m.name()] = m;
    DecodeMeasurement first_round = m;
    first_round.round = 0;
    nlohmann::ordered_json definition = recipe_definition(what_a_step_depends_on(recipe), files);
    definition.update(
        {{"batch", m.batch}, {"context", m.context}, {"round", m.round}, {"requests", m.requests}});
    return {.name = m.name(),
            .variant = first_round.name(),
            .definition = std::move(definition),
            .work = [&recipe = recipe, m] { return m.measure(recipe); },
            .label = label_of(sweep_, sweep_.variants[m.variant]) + m.words()};
  }

  // The models first; then round after round, every other one from the largest down.
  std::vector<StudyRun> all_runs() {
    std::vector<StudyRun> runs;
    for (size_t v = 0; v < variants_.size(); ++v) runs.push_back(run_of({.variant = v}));
    for (int64_t round = 0; round < rounds_; ++round) {
      std::vector<StudyRun> of_round;
      for (const int64_t context : contexts_) {
        for (const int64_t batch : batches_) {
          for (size_t v = 0; v < variants_.size(); ++v)
            of_round.push_back(run_of({.variant = v, .batch = batch, .context = context, .round = round}));
        }
      }
      if (round % 2 == 1) std::ranges::reverse(of_round);
      std::ranges::move(of_round, std::back_inserter(runs));
    }
    for (size_t v = 0; request_.requests && v < variants_.size(); ++v) runs.push_back(run_of(batching_of(v)));
    return runs;
  }

  DecodeMeasurement batching_of(size_t variant) const {
    return {.variant = variant,
            .batch = std::ranges::max(batches_),
            .context = std::ranges::max(contexts_),
            .requests = *request_.requests};
  }

  void note(const StudyResult& result) {
    const bool is_new = results_.insert_or_assign(result.name, result).second;
    const DecodeMeasurement& m = measurements_.at(result.name);
    DecodeMeasurement first_round = m;
    first_round.round = 0;
    if (result.failed()) failed_.insert(first_round.name());
    if (!is_new || result.kept) return;
    request_.on_result(label_of(sweep_, sweep_.variants[m.variant]) + m.words() + words_of_result(m, result));
    request_.on_sweep(collected());
  }

  static std::string words_of_result(const DecodeMeasurement& m, const StudyResult& result) {
    if (result.failed()) return ": " + first_line(result.failure);
    if (m.batch == 0) return ": counted, and the machine measured";
    if (m.requests > 0)
      return cat(": ", brief(result.value.at("gain").get<double>(), 3), " times static batches");
    const DecodePoint point = summarise_decode(m.batch, m.context, {result});
    return cat(": ", milliseconds(point.p50_seconds), " ms, ", format_rate(point.tokens_per_second),
               " tokens/s");
  }

  // With what is finished.
  DecodeSweep collected() const {
    DecodeSweep sweep = sweep_;
    for (size_t v = 0; v < variants_.size(); ++v) {
      DecodeVariant& variant = sweep.variants[v];
      if (const StudyResult* const model = found({.variant = v}, sweep)) take_decoder(*model, variant);
      for (const int64_t context : contexts_) {
        for (const int64_t batch : batches_) add_point(v, batch, context, sweep);
      }
      if (!request_.requests) continue;
      const StudyResult* const batching = found(batching_of(v), sweep);
      if (batching == nullptr) continue;
      BatchingComparison& b = variant.batching.emplace();
      if (batching->failed())
        b.failure = first_line(batching->failure);
      else
        read_record(batching_columns(), batching->value, b);
    }
    analyse(sweep);
    return sweep;
  }

  void add_point(size_t v, int64_t batch, int64_t context, DecodeSweep& sweep) const {
    std::vector<StudyResult> rounds;
    DecodeMeasurement m{.variant = v, .batch = batch, .context = context};
    const bool failed = failed_.contains(m.name());
    for (m.round = 0; m.round < rounds_; ++m.round) {
      const auto result = results_.find(m.name());
      if (result != results_.end())
        rounds.push_back(result->second);
      else if (!failed)
        ++sweep.unfinished;
    }
    if (!rounds.empty()) sweep.variants[v].points.push_back(summarise_decode(batch, context, rounds));
  }

  // Also counts what is still to come.
  const StudyResult* found(const DecodeMeasurement& m, DecodeSweep& sweep) const {
    const auto result = results_.find(m.name());
    if (result != results_.end()) return &result->second;
    ++sweep.unfinished;
    return nullptr;
  }

  const DecodeSweepRequest& request_;
  DecodeSweep sweep_;
  std::vector<int64_t> batches_, contexts_;
  int64_t rounds_ = 1;
  std::vector<VariedRecipe> variants_;
  std::map<std::string, StudyResult> results_;
  std::map<std::string, DecodeMeasurement> measurements_;  // by the names of their runs
  std::set<std::string> failed_;                           // names of the first rounds
};

}  // namespace

DecodeSweep run_decode_sweep(const DecodeSweepRequest& request) {
  return DecodeSweeping(request).run();
}

void check_decode_sweep(const DecodeSweepRequest& request) {
  const DecodeSweeping checked(request);
}

}  // namespace autotrain
