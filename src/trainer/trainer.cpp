#include "autotrain/trainer.h"

#include "autotrain/error.h"
#include "base/run_thread.h"
#include "data/datasets.h"
#include "setup/users_code.h"
#include "trainer/run.h"

namespace autotrain {

Trainer::Trainer(std::unique_ptr<Run> run) : run_(std::move(run)) {}

Trainer::Trainer(Recipe recipe, std::unique_ptr<Task> task, const Dataset& train, TrainerOptions options)
    : Trainer(Run::of_task(std::move(recipe), std::move(task), train, nullptr, std::move(options))) {}

Trainer::Trainer(Recipe recipe, std::unique_ptr<Task> task, const Dataset& train, const Dataset& validation,
                 TrainerOptions options)
    : Trainer(Run::of_task(std::move(recipe), std::move(task), train, &validation, std::move(options))) {}

Trainer Trainer::from_recipe(Recipe recipe, TrainerOptions options) {
  complete_other_data(recipe.data);
  return Trainer(Run::of_recipe(std::move(recipe), std::move(options)));
}

Trainer::~Trainer() = default;
Trainer::Trainer(Trainer&&) noexcept = default;
Trainer& Trainer::operator=(Trainer&&) noexcept = default;

Trainer::Run& Trainer::run() const {
  if (run_) return *run_;
  throw Error(ExitCode::kUsage, "Trainer", "was moved into another one", "call that one");
}

void Trainer::on_update(std::function<Flow(const UpdateRecord&)> callback) {
  run().callbacks.update.push_back([callback = std::move(callback)](const UpdateRecord& record) {
    const ThreadWork program(false);
    return call_user("the callback of Trainer::on_update", [&] { return callback(record); });
  });
}

void Trainer::on_evaluation(std::function<Flow(const EvaluationRecord&)> callback) {
  run().callbacks.evaluation.push_back([callback = std::move(callback)](const EvaluationRecord& record) {
    const ThreadWork program(false);
    return call_user("the callback of Trainer::on_evaluation", [&] { return callback(record); });
  });
}

const BatchPlan& Trainer::plan() {
  return run().plan();
}

FigureKinds Trainer::figure_kinds() {
  return run().figure_kinds();
}

void Trainer::load_weights(const std::filesystem::path& file) {
  run().load_weights(file);
}

Summary Trainer::fit() {
  return run().fit();
}

EvaluationRecord Trainer::evaluate(const Dataset& data) {
  return run().evaluate(data);
}

void Trainer::take(Weights which) {
  run().take(which);
}

torch::nn::Module& Trainer::module() {
  return run().task().module();
}

}  // namespace autotrain
