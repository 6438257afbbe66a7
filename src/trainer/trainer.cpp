#include "autotrain/trainer.h"

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

Trainer::Trainer(Recipe recipe, std::unique_ptr<Task> task, const Dataset& train, TrainerOptions options)
    : Trainer(
          Run::of_task(std::move(recipe), std::move(task), borrowed(train, nullptr), std::move(options))) {}

Trainer::Trainer(Recipe recipe, std::unique_ptr<Task> task, const Dataset& train, const Dataset& validation,
                 TrainerOptions options)
    : Trainer(Run::of_task(std::move(recipe), std::move(task), borrowed(train, &validation),
                           std::move(options))) {}

Trainer Trainer::from_recipe(Recipe recipe, TrainerOptions options) {
  return Trainer(Run::of_recipe(std::move(recipe), std::move(options)));
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
