#include "autotrain/trainer.h"

#include "autotrain/error.h"
#include "base/text.h"
#include "base/units.h"
#include "device/failure.h"
#include "plan/memory_statement.h"
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

// Loading data or building the model ran out of the budget: no micro-batch could help.
[[noreturn]] void fail_loading(const std::exception& error, Device& device) {
  if (classify_failure(error) == Failure::kOther) throw;
  const std::optional<Refusal> refusal = device.memory().last_refusal();
  throw Error(ExitCode::kDoesNotFit, "execution.memory.budget",
              cat("the data set and the model with its optimizer need more than the ",
                  format_bytes(device.budget_bytes()), " of the budget",
                  refusal ? describe(*refusal) : ": " + first_line(error)),
              "raise execution.memory.budget, use less data, or a smaller model");
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
  Device& opened = *device;
  try {
    RunData data = load_data(recipe);
    auto task = build_task(recipe, *data.train);
    return Trainer(std::make_unique<Run>(std::move(recipe), std::move(device), std::move(data),
                                         std::move(task), std::move(options)));
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    fail_loading(error, opened);
  }
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

Summary Trainer::fit() {
  return run_->fit();
}

torch::nn::Module& Trainer::module() {
  return run_->task().module();
}

}  // namespace autotrain
