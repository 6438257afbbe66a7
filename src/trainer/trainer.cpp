#include "autotrain/trainer.h"

#include "recipe/checks.h"
#include "trainer/run.h"

namespace autotrain {
namespace {

RunData borrowed(const Dataset& train, const Dataset* validation) {
  RunData data;
  data.train = &train;
  data.validation = validation;
  return data;
}

}  // namespace

Trainer::Trainer(std::unique_ptr<Run> run) : run_(std::move(run)) {}

Trainer::Trainer(Recipe recipe, std::unique_ptr<Task> task, const Dataset& train, TrainerOptions options) {
  check_recipe(recipe);
  auto device = open_run_device(recipe);
  run_ = std::make_unique<Run>(std::move(recipe), std::move(device), borrowed(train, nullptr),
                               std::move(task), std::move(options));
}

Trainer::Trainer(Recipe recipe, std::unique_ptr<Task> task, const Dataset& train, const Dataset& validation,
                 TrainerOptions options) {
  check_recipe(recipe);
  auto device = open_run_device(recipe);
  run_ = std::make_unique<Run>(std::move(recipe), std::move(device), borrowed(train, &validation),
                               std::move(task), std::move(options));
}

Trainer Trainer::from_recipe(Recipe recipe, TrainerOptions options) {
  check_recipe(recipe);
  auto device = open_run_device(recipe);
  RunData data = within_budget(*device, [&] { return load_data(recipe, *device); });
  auto task = within_budget(*device, [&] { return build_task(recipe, *data.train); });
  return Trainer(std::make_unique<Run>(std::move(recipe), std::move(device), std::move(data), std::move(task),
                                       std::move(options)));
}

Trainer::~Trainer() = default;
Trainer::Trainer(Trainer&&) noexcept = default;
Trainer& Trainer::operator=(Trainer&&) noexcept = default;

void Trainer::on_update(std::function<Flow(const UpdateRecord&)> callback) {
  run_->callbacks.update.push_back(std::move(callback));
}

void Trainer::on_evaluation(std::function<Flow(const EvaluationRecord&)> callback) {
  run_->callbacks.evaluation.push_back(std::move(callback));
}

const BatchPlan& Trainer::plan() {
  return run_->plan();
}

std::vector<std::string> Trainer::figure_names() {
  return run_->figure_names();
}

Summary Trainer::fit() {
  return run_->fit();
}

torch::nn::Module& Trainer::module() {
  return run_->task().module();
}

}  // namespace autotrain
