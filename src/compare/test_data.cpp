#include "compare/test_data.h"

#include <algorithm>

#include "autotrain/log.h"
#include "base/interrupt.h"
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

// Precondition: the recipe has test data.
Json read(const std::filesystem::path& run, const Recipe& recipe) {
  install_signal_handlers();
  TrainedRun trained = open_trained_run({.folder = run}, {});
  trained.recipe.data.validation = recipe.data.test;
  return evaluate_checkpoint(trained).figures;
}

}  // namespace

std::vector<TestReading> read_test_data(const CompareOptions& options, const std::vector<RunOrder>& orders,
                                        const Comparison& comparison) {
  const std::vector<size_t> chosen = chosen_by(comparison.best);
  const auto recipe_of = [&](size_t i) -> const Recipe& { return options.recipes[i].recipe; };
  if (std::ranges::any_of(chosen, [&](size_t i) { return !recipe_of(i).data.test; })) return {};
  std::vector<StudyRun> runs;
  std::vector<TestReading> readings;
  for (const RunOrder& order : orders) {
    const bool whole = order.share == 1 && order.twin.empty();
    if (!whole || std::ranges::count(chosen, order.point) == 0) continue;
    const Recipe& recipe = recipe_of(order.point);
    runs.push_back({.name = order.name,
                    .variant = order.label,
                    .definition = {{"recipe", values_of(recipe, catalog())},
                                   {"files", {{"data.test", fingerprint_of_data(*recipe.data.test)}}}},
                    .work = [folder = order.folder, &recipe] { return read(folder, recipe); },
                    .label = cat("test data by ", order.label, ", seed ", order.recipe.seed)});
    readings.push_back({.recipe = order.point, .seed = order.recipe.seed});
  }
  const std::vector<StudyResult> results = run_study(
      runs, {.kind = "test", .folder = options.folder / "test", .on_progress = options.on_progress});
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].failed()) {
      log::warn("compare", cat("the test data could not be read: ", first_line(results[i].failure)));
      return {};
    }
    readings[i].figures = results[i].value.get<std::map<std::string, double>>();
  }
  return readings;
}

}  // namespace autotrain
