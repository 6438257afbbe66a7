#include "compare/test_data.h"

#include <algorithm>

#include "autotrain/log.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/random.h"
#include "base/text.h"
#include "data/fingerprint.h"
#include "recipe/compare.h"
#include "state/catalog.h"
#include "study/evaluated_checkpoint.h"

namespace autotrain {
namespace {

using Json = nlohmann::ordered_json;

std::vector<size_t> chosen_by(const BestRecipe& best) {
  std::vector<size_t> chosen;
  if (best.recipe) chosen.push_back(*best.recipe);
  chosen.insert(chosen.end(), best.alike.begin(), best.alike.end());
  return chosen;
}

Json read(const std::filesystem::path& run, const Choice& data) {
  install_signal_handlers();
  TrainedRun trained = open_trained_run({.folder = run}, {});
  trained.recipe.data.validation = data;
  return evaluate_checkpoint(trained).figures;
}

}  // namespace

std::vector<TestReading> read_test_data(const CompareOptions& options, const std::vector<RunOrder>& orders,
                                        const Comparison& comparison) {
  const std::vector<size_t> chosen = chosen_by(comparison.best);
  const auto recipe_of = [&](size_t i) -> const Recipe& { return options.recipes[i].recipe; };
  if (std::ranges::any_of(chosen, [&](size_t i) { return !recipe_of(i).data.test; })) return {};
  if (chosen.empty()) return {};
  const auto other = std::ranges::find_if(
      chosen, [&](size_t i) { return recipe_of(i).data.test != recipe_of(chosen.front()).data.test; });
  if (other != chosen.end()) {
    log::warn("compare", cat("the test data are not read: ", options.recipes[chosen.front()].label, " and ",
                             options.recipes[*other].label, " name others (data.test)"));
    return {};
  }
  const Choice& data = *recipe_of(chosen.front()).data.test;
  const std::string fingerprint = fingerprint_of_data(data);
  std::vector<StudyRun> runs;
  std::vector<TestReading> readings;
  std::vector<std::string> of_reading;  // the run that it is of
  for (const RunOrder& order : orders) {
    if (order.share < 1 || std::ranges::count(chosen, order.point) == 0) continue;
    readings.push_back({.recipe = order.point, .seed = order.recipe.seed});
    of_reading.push_back(order.twin.empty() ? order.name : order.twin);
    if (std::ranges::find(runs, of_reading.back(), &StudyRun::name) != runs.end()) continue;
    const RunOrder& made = *std::ranges::find(orders, of_reading.back(), &RunOrder::name);
    runs.push_back({.name = made.name,
                    .variant = made.label,
                    .definition = {{"recipe", values_of(recipe_of(made.point), catalog())},
                                   {"files", {{"data.test", fingerprint}}}},
                    .work = [folder = made.folder, &data] { return read(folder, data); },
                    .label = cat("test data by ", made.label, ", seed ", made.recipe.seed)});
  }
  // Other test data are another reading.
  const std::string folder = cat("test-", fnv1a(cat(words_of(data), fingerprint)) % 1'000'000);
  const std::vector<StudyResult> results = run_study(
      runs, {.kind = "test", .folder = options.folder / folder, .on_progress = options.on_progress});
  for (size_t i = 0; i < readings.size(); ++i) {
    const StudyResult& result = *std::ranges::find(results, of_reading[i], &StudyResult::name);
    if (result.failed()) {
      log::warn("compare", cat("the test data could not be read: ", first_line(result.failure)));
      return {};
    }
    readings[i].figures = numbers_of(result.value);
  }
  return readings;
}

}  // namespace autotrain
