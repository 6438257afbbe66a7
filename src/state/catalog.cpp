#include "state/catalog.h"

#include <memory>
#include <mutex>

#include "autotrain/trainer.h"
#include "data/datasets.h"
#include "model/losses.h"
#include "model/metrics.h"
#include "model/models.h"
#include "optim/lr_rules.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "plan/search.h"
#include "recipe/load.h"

namespace autotrain {
namespace {

template <class Row>
std::vector<ChoiceSpec> specs_of(const std::vector<Row>& table) {
  std::vector<ChoiceSpec> specs;
  for (const Row& row : table) specs.push_back(row.spec);
  return specs;
}

std::unique_ptr<const Catalog>& made() {
  static std::unique_ptr<const Catalog> all;
  return all;
}

std::mutex mutex;

}  // namespace

const Catalog& catalog() {
  const std::lock_guard lock(mutex);
  std::unique_ptr<const Catalog>& all = made();
  if (!all) {
    all = std::make_unique<const Catalog>(Catalog{.datasets = specs_of(dataset_table()),
                                                  .models = specs_of(model_table()),
                                                  .losses = specs_of(loss_table()),
                                                  .optimizers = specs_of(optimizer_table()),
                                                  .schedules = specs_of(schedule_table()),
                                                  .lr_rules = specs_of(lr_rule_table()),
                                                  .strategies = specs_of(strategy_table()),
                                                  .metrics = specs_of(metric_table())});
  }
  return *all;
}

bool catalog_is_made() {
  const std::lock_guard lock(mutex);
  return made() != nullptr;
}

void forget_catalog() {
  const std::lock_guard lock(mutex);
  made().reset();
}

Recipe load_recipe(const std::filesystem::path& path, const std::vector<std::string>& overrides) {
  Recipe recipe = load_recipe_file(path, catalog(), {.overrides = overrides});
  complete_other_data(recipe.data);
  return recipe;
}

}  // namespace autotrain
