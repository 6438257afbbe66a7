#include "setup/own_loss_check.h"

#include <cmath>

#include "autotrain/error.h"
#include "base/text.h"
#include "data/loader.h"
#include "device/failure.h"
#include "model/models.h"
#include "plan/scopes.h"
#include "step/generators.h"

namespace autotrain {
namespace {

constexpr int64_t kFirst = 1, kRest = 3;  // of different size
constexpr double kRounding = 1e-4;        // float32 adds up in another order

// Σ of the samples' losses, as the model's loss has it.
double sum_of(Workbench& bench, const Batch& batch) {
  return evaluate_batch(*bench.task, batch, Precision::kFp32).loss.sum.item<double>();
}

Batch part_of(const Batch& whole, int64_t first, int64_t count) {
  Batch part = whole.with_each([&](const torch::Tensor& tensor) { return tensor.narrow(0, first, count); });
  part.samples = count;
  return part;
}

void compare(Workbench& bench, const Batch& whole) {
  const EvaluationMode mode(bench.task->module());
  const double all = sum_of(bench, whole), first = sum_of(bench, part_of(whole, 0, kFirst)),
               rest = sum_of(bench, part_of(whole, kFirst, kRest));
  const double scale = std::abs(all) + std::abs(first) + std::abs(rest);
  if (!std::isfinite(scale) || std::abs(all - first - rest) <= kRounding * scale) return;
  throw Error(
      ExitCode::kBadRecipe, "loss.name",
      cat("model: of ", whole.samples, " samples the loss comes to ", brief(all),
          " in sum, and of its parts of ", kFirst, " and ", kRest, " to ", brief(first), " and ", brief(rest),
          ": it is not what it is said to be, the mean over the samples or their sum, and cut into "
          "micro-batches "
          "it would be another"),
      "have the module return the mean over the samples, or their sum (model.reduction: sum of a TorchScript "
      "module); a mean over what is masked or ignored weighs samples by that");
}

}  // namespace

void check_own_loss(Workbench& bench) {
  const Network* const network = as_network(bench.task->module());
  const Dataset& train = *bench.data.train;
  if (network == nullptr || !network->has_own_loss() || !network->computes_in(Precision::kFp32) ||
      train.size() < kFirst + kRest)
    return;
  const GeneratorScope generators(bench.device->torch_device());
  try {
    Loader loader(train, Stream(0, train.size(), /*shuffle=*/false),
                  repeated({consecutive(0, kFirst + kRest)}),
                  {.workers = 0, .prefetch = 0, .channels_last = bench.loader.channels_last});
    compare(bench, bench.device->upload(*loader.next()));
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    if (classify_failure(error) == Failure::kOther) throw;
  }
}

}  // namespace autotrain
