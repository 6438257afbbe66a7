#include "setup/own_loss_check.h"

#include <algorithm>
#include <cmath>

#include "autotrain/error.h"
#include "base/text.h"
#include "data/loader.h"
#include "device/failure.h"
#include "device/generators.h"
#include "model/models.h"
#include "plan/scopes.h"

namespace autotrain {
namespace {

constexpr int64_t kFirst = 1, kRest = 3;  // of different size
constexpr double kRounding = 1e-4;        // float32 adds up in another order
constexpr int kDraws = 24;                // of a loss that draws random numbers
constexpr double kErrors = 8;             // standard errors of their mean
constexpr int64_t kPlaces = 16;           // of the data that are looked at for samples with a loss

// Σ of the samples' losses, as the model's loss has it.
double sum_of(Workbench& bench, const Batch& batch) {
  return evaluate_batch(*bench.task, batch, Precision::kFp32).loss.sum.item<double>();
}

Batch part_of(const Batch& whole, int64_t first, int64_t count) {
  Batch part =
      whole.with_each_of_samples([&](const torch::Tensor& tensor) { return tensor.narrow(0, first, count); });
  part.samples = count;
  return part;
}

// The sum over the samples, and over those of both parts.
struct Sums {
  double all = 0, first = 0, rest = 0;

  double apart() const { return all - first - rest; }
  double scale() const { return std::abs(all) + std::abs(first) + std::abs(rest); }
};

Sums sums_of(Workbench& bench, const Batch& whole) {
  return {sum_of(bench, whole), sum_of(bench, part_of(whole, 0, kFirst)),
          sum_of(bench, part_of(whole, kFirst, kRest))};
}

// Whether a loss that draws random numbers, such as a variational one, may be the sum of its parts': what is
// apart on average of some draws lies within their spread.
bool agree_on_average(Workbench& bench, const Batch& whole, const Sums& once) {
  double sum = once.apart(), squares = once.apart() * once.apart();
  for (int draw = 1; draw < kDraws; ++draw) {
    const double apart = sums_of(bench, whole).apart();
    sum += apart;
    squares += apart * apart;
  }
  const double mean = sum / kDraws;
  const double variance = std::max(0.0, squares / kDraws - mean * mean) / (kDraws - 1);
  return std::abs(mean) <= kErrors * std::sqrt(variance) + kRounding * once.scale();
}

// What the loss is, where that is the other one of a mean and a sum.
std::string other_reduction(const Sums& sums) {
  const double all = kFirst + kRest, allowed = kRounding * sums.scale();
  if (std::abs(sums.all / all - sums.first / kFirst - sums.rest / kRest) <= allowed)
    return "it is their sum, and is said to be the mean";
  if (std::abs(all * sums.all - kFirst * sums.first - kRest * sums.rest) <= allowed)
    return "it is their mean, and is said to be the sum";
  return "it is not what it is said to be, the mean over the samples or their sum";
}

// False where the samples have no loss, which tells nothing.
bool compare(Workbench& bench, const Batch& whole) {
  const EvaluationMode mode(bench.task->module());
  const Sums sums = sums_of(bench, whole);
  if (sums.scale() == 0) return false;
  if (!std::isfinite(sums.scale()) || std::abs(sums.apart()) <= kRounding * sums.scale()) return true;
  const bool draws = std::abs(sum_of(bench, whole) - sums.all) > kRounding * sums.scale();
  if (draws && agree_on_average(bench, whole, sums)) return true;
  throw Error(
      ExitCode::kBadRecipe, "loss.name",
      cat("model: of ", whole.samples, " samples the loss comes to ", brief(sums.all),
          " in sum, and of its parts of ", kFirst, " and ", kRest, " to ", brief(sums.first), " and ",
          brief(sums.rest),
          draws ? ", with other random numbers each time and more apart than these explain" : "", ": ",
          other_reduction(sums), ", and cut into micro-batches it would be another"),
      "have the module return the mean over the samples, or their sum (model.reduction: sum of a TorchScript "
      "module; export one from Python again); a mean over what is masked or ignored weighs samples by that");
}

// Of as many samples as are compared, from there on.
Batch samples_from(Workbench& bench, int64_t first) {
  const Dataset& train = *bench.data.train;
  Loader loader(train, Stream(0, train.size(), /*shuffle=*/false),
                repeated({consecutive(first, kFirst + kRest)}),
                {.workers = 0, .prefetch = 0, .channels_last = bench.loader.channels_last});
  return bench.device->upload(*loader.next());
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
    const int64_t last = train.size() - kFirst - kRest;
    for (int64_t place = 0; place < kPlaces; ++place) {
      const Batch whole = samples_from(bench, last * place / (kPlaces - 1));
      if (!whole.shared.empty() || compare(bench, whole)) return;
    }
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    if (classify_failure(error) == Failure::kOther) throw;
  }
}

}  // namespace autotrain
