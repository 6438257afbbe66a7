#include "setup/own_loss_check.h"

#include <algorithm>
#include <cmath>

#include "autotrain/error.h"
#include "base/text.h"
#include "data/cost_order.h"
#include "device/failure.h"
#include "device/generators.h"
#include "model/models.h"
#include "plan/load_samples.h"
#include "plan/scopes.h"

namespace autotrain {
namespace {

constexpr int64_t kFirst = 1, kRest = 3;  // of different size
constexpr double kRounding = 1e-4;        // float32 adds up in another order
constexpr int kDraws = 24;                // of a loss that draws random numbers
constexpr double kErrors = 8;             // standard errors of their mean
constexpr int64_t kPlaces = 16;           // of the data that are looked at for samples with a loss

constexpr double kClear = 1e-2;  // far beyond rounding

// Σ of the samples' losses, as the model's loss has it. It may write to its samples.
double sum_of(Workbench& bench, const Batch& batch) {
  const Batch copy = batch.with_each([](const torch::Tensor& tensor) { return tensor.clone(); });
  return evaluate_batch(*bench.task, copy, Precision::kFp32).loss.sum.item<double>();
}

Batch part_of(const Batch& whole, int64_t first, int64_t count) {
  Batch part =
      whole.with_each_of_samples([&](const torch::Tensor& tensor) { return tensor.narrow(0, first, count); });
  part.samples = count;
  return part;
}

// Samples with the targets of others.
Batch crossed(const Batch& whole, const std::vector<int64_t>& samples, const std::vector<int64_t>& targets) {
  const auto rows = [&](const torch::Tensor& tensor, const std::vector<int64_t>& places) {
    return tensor.index_select(0, torch::tensor(places, tensor.options().dtype(torch::kInt64)));
  };
  Batch made = whole.with_each_of_samples([&](const torch::Tensor& tensor) { return rows(tensor, samples); });
  made.targets = rows(whole.targets, targets);
  made.samples = std::ssize(samples);
  return made;
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

// Whether a loss that draws random numbers holds each prediction against every target, as [n, 1] and [n] are
// where one is taken from the other: it matters whose target a sample alone has, and of two samples together
// it does not. With the same random numbers each time.
bool mixes_targets(Workbench& bench, const Batch& whole) {
  if (!whole.targets.defined() || !whole.targets.is_floating_point()) return false;
  const auto sum = [&](const std::vector<int64_t>& samples, const std::vector<int64_t>& targets) {
    seed_generators(bench.device->torch_device(), 0);
    return sum_of(bench, crossed(whole, samples, targets));
  };
  for (int64_t first = 0; first + 1 < whole.samples; ++first) {
    const int64_t other = first + 1;
    const double own = sum({first}, {first}) + sum({other}, {other});
    const double alone = own - sum({first}, {other}) - sum({other}, {first});
    const double together = sum({first, other}, {first, other}) - sum({first, other}, {other, first});
    if (std::abs(alone) > kClear * std::abs(own) && std::abs(together) <= kRounding * std::abs(own))
      return true;
  }
  return false;
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
  const bool mixes = draws && mixes_targets(bench, whole);
  if (draws && !mixes && agree_on_average(bench, whole, sums)) return true;
  throw Error(
      ExitCode::kBadRecipe, "loss.name",
      cat("model: of ", whole.samples, " samples the loss comes to ", brief(sums.all),
          " in sum, and of its parts of ", kFirst, " and ", kRest, " to ", brief(sums.first), " and ",
          brief(sums.rest),
          mixes   ? ", and that it does not matter which of them has which target"
          : draws ? ", with other random numbers each time and more apart than these explain"
                  : "",
          ": ", other_reduction(sums), ", and cut into micro-batches it would be another"),
      "have the module return the mean over the samples, or their sum (model.reduction: sum of a TorchScript "
      "module; export one from Python again); a mean over what is masked or ignored weighs samples by that, "
      "and predictions [n, 1] beside targets [n] are held against all of them");
}

// The shortest sample, then the longest among others, where samples differ in what they take: a loss that
// weighs them by their length is another for these. Else none.
std::vector<int64_t> of_different_cost(const Dataset& train) {
  if (!has_costs(train)) return {};
  const auto [shortest, longest] = cost_extremes(train);
  if (*train.cost(shortest) == *train.cost(longest)) return {};
  std::vector<int64_t> chosen = {shortest, longest};
  for (int64_t i = 0; std::ssize(chosen) < kFirst + kRest; ++i) {
    if (i != shortest && i != longest) chosen.push_back(i);
  }
  return chosen;
}

// As many samples as are compared, in the order in which they are looked at.
std::vector<Piece> pieces_of(const Dataset& train) {
  std::vector<Piece> pieces;
  const std::vector<int64_t> different = of_different_cost(train);
  if (!different.empty()) pieces.push_back({different});
  const int64_t last = train.size() - kFirst - kRest;
  for (int64_t place = 0; place < kPlaces; ++place)
    pieces.push_back(consecutive(last * place / (kPlaces - 1), kFirst + kRest));
  return pieces;
}

// False where the samples tell nothing.
bool settles(Workbench& bench, const Piece& piece) {
  try {
    const Batch whole = load_samples(bench, *bench.data.train, piece);
    return !whole.shared.empty() || compare(bench, whole);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    if (classify_failure(error) == Failure::kOther) throw;
    return false;
  }
}

}  // namespace

void check_own_loss(Workbench& bench) {
  const Network* const network = as_network(bench.task->module());
  const Dataset& train = *bench.data.train;
  if (network == nullptr || !network->has_own_loss() || !network->computes_in(Precision::kFp32) ||
      train.size() < kFirst + kRest)
    return;
  const GeneratorScope generators(bench.device->torch_device());
  for (const Piece& piece : pieces_of(train)) {
    if (settles(bench, piece)) return;
  }
}

}  // namespace autotrain
