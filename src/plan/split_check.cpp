#include "plan/split_check.h"

#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

#include "base/text.h"
#include "data/cost_order.h"
#include "device/failure.h"
#include "model/models.h"
#include "plan/operation_trace.h"
#include "plan/scopes.h"
#include "step/autocast.h"
#include "step/generators.h"
#include "step/loss_terms.h"

namespace autotrain {
namespace {

constexpr int64_t kHalf = 2;  // batch normalisation needs more than one sample
// float32 rounding over a deep network stays below 1e-5; mixing samples shows at 1e-2 and above.
constexpr double kTolerance = 1e-3;

// Training mode without dropout until the scope ends.
class NoDropoutScope {
 public:
  explicit NoDropoutScope(torch::nn::Module& module) : module_(module) {
    module_.train();
    for (const auto& part : module_.modules()) {
      if (part->name().find("Dropout") != std::string::npos) part->eval();
    }
  }
  ~NoDropoutScope() { module_.train(); }
  NoDropoutScope(const NoDropoutScope&) = delete;
  NoDropoutScope& operator=(const NoDropoutScope&) = delete;

 private:
  torch::nn::Module& module_;
};

Batch load(Workbench& bench, const Piece& piece) {
  Loader loader(*bench.data.train, bench.stream, repeated({piece}),
                {.prefetch = 0, .channels_last = bench.loader.channels_last});
  return bench.device->upload(*loader.next());
}

// Half of a batch, padded as all of it is.
Batch part_of(const Batch& whole, int64_t first) {
  Batch part = whole.with_each([&](const torch::Tensor& tensor) { return tensor.narrow(0, first, kHalf); });
  part.samples = kHalf;
  return part;
}

struct Gradient {
  std::vector<torch::Tensor> parts;  // of the loss sum
  double weight = 0;
};

Gradient gradient_of(Workbench& bench, const Batch& batch) {
  const AutocastScope full_precision(bench.device->torch_device().type(), Precision::kFp32);
  const LossTerms terms = loss_terms(*bench.task, batch);
  std::vector<torch::Tensor> parameters;
  for (const NamedTensor& parameter : bench.optimizer->parameters()) parameters.push_back(parameter.tensor);
  Gradient gradient;
  gradient.parts =
      torch::autograd::grad({terms.sum}, parameters, /*grad_outputs=*/{}, /*retain_graph=*/std::nullopt,
                            /*create_graph=*/false, /*allow_unused=*/true);
  gradient.weight = terms.weight.item<double>();
  return gradient;
}

// ‖whole − Σ halves‖ ÷ ‖whole‖, each divided by its weight. The halves are subtracted in place, so that
// only two gradients live at once.
double relative_difference(Gradient whole, Workbench& bench, const std::vector<Batch>& halves) {
  double norm = 0;
  for (const torch::Tensor& part : whole.parts) {
    if (part.defined()) norm += part.square().sum().item<double>();
  }
  double weight = 0;
  for (const Batch& half : halves) {
    const Gradient gradient = gradient_of(bench, half);
    weight += gradient.weight;
    for (size_t i = 0; i < whole.parts.size(); ++i) {
      if (whole.parts[i].defined() && gradient.parts[i].defined()) whole.parts[i].sub_(gradient.parts[i]);
    }
  }
  double rest = 0;
  for (const torch::Tensor& part : whole.parts) {
    if (part.defined()) rest += part.square().sum().item<double>();
  }
  const double weights_differ =
      whole.weight != 0 ? std::abs(weight - whole.weight) / std::abs(whole.weight) : 0;
  return std::max(norm > 0 ? std::sqrt(rest / norm) : 0, weights_differ);
}

SplitVerdict::Kind kind_of(const std::string& operation) {
  const auto any_of = [&](std::initializer_list<const char*> words) {
    return std::any_of(words.begin(), words.end(),
                       [&](const char* word) { return operation.find(word) != std::string::npos; });
  };
  if (any_of({"batch_norm"})) return SplitVerdict::Kind::kBatchNorm;
  if (any_of({"dropout", "bernoulli", "rand", "normal_", "multinomial", "uniform_", "exponential_"})) {
    return SplitVerdict::Kind::kRandom;
  }
  return SplitVerdict::Kind::kMixes;
}

SplitVerdict run_check(Workbench& bench) {
  const Batch whole = load(bench, consecutive(0, 2 * kHalf));
  const std::vector<Batch> halves = {load(bench, consecutive(0, kHalf)),
                                     load(bench, consecutive(kHalf, kHalf))};
  SplitVerdict verdict{.samples = 2 * kHalf, .operation = "", .module = ""};
  const auto reseed = [&] {
    seed_for_micro_batch(bench.device->torch_device(), bench.step.options().seed, 0, 0);
  };
  reseed();
  verdict.difference = relative_difference(gradient_of(bench, whole), bench, halves);
  if (verdict.difference <= kTolerance) return verdict;

  const std::vector<Batch> padded_alike = {part_of(whole, 0), part_of(whole, kHalf)};
  reseed();
  if (has_costs(*bench.data.train) &&
      relative_difference(gradient_of(bench, whole), bench, padded_alike) <= kTolerance) {
    verdict.kind = SplitVerdict::Kind::kPadding;
    return verdict;
  }
  reseed();
  const OperationTrace at_once(*bench.task, {whole});
  reseed();
  const OperationTrace in_halves(*bench.task, padded_alike);
  const auto culprit = first_difference(at_once, in_halves, kTolerance);
  verdict.operation = culprit.operation;
  verdict.module = culprit.module;
  verdict.kind = kind_of(culprit.operation);
  return verdict;
}

}  // namespace

SplitVerdict check_split(Workbench& bench) {
  const Network* const network = as_network(bench.task->module());
  const bool full_precision = network == nullptr || network->computes_in(Precision::kFp32);
  if (bench.data.train->size() < 2 * kHalf || !full_precision)
    return {.kind = SplitVerdict::Kind::kNotChecked, .operation = "", .module = ""};
  const GeneratorScope generators(bench.device->torch_device());
  const NoDropoutScope mode(bench.task->module());
  try {
    const BufferScope buffers(bench.task->module());
    return run_check(bench);
  } catch (const std::exception& error) {
    if (classify_failure(error) == Failure::kOther) throw;
    return {.kind = SplitVerdict::Kind::kNotChecked, .operation = "", .module = ""};
  }
}

std::string SplitVerdict::text() const {
  const std::string compared =
      cat("split check: the gradient of ", samples, " samples at once and in halves differs by ",
          fixed(difference * 100, 4), " %");
  const std::string where = module.empty() ? "" : cat(", first in ", module, " (", operation, ")");
  switch (kind) {
    case Kind::kExact: return compared + ": rounding";
    case Kind::kBatchNorm: return compared + where + ": batch normalisation";
    case Kind::kRandom: return compared + where + ": random numbers drawn at another cut";
    case Kind::kMixes: return compared + where + ": it mixes samples, so accumulating is not the big batch";
    case Kind::kPadding:
      return compared + ": what fills up shorter samples counts, so accumulating is not the big batch";
    case Kind::kNotChecked: return "split check: not made, for want of samples, memory or float32";
  }
  return "";
}

}  // namespace autotrain
