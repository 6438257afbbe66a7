#include "plan/split_check.h"

#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <functional>

#include "autotrain/error.h"
#include "base/text.h"
#include "data/cost_order.h"
#include "device/failure.h"
#include "device/generators.h"
#include "model/models.h"
#include "plan/operation_trace.h"
#include "plan/scopes.h"
#include "step/autocast.h"
#include "step/backward.h"
#include "step/loss_terms.h"
#include "step/own_code.h"

namespace autotrain {
namespace {

constexpr int64_t kHalf = 2;  // batch normalisation needs more than one sample
// float32 rounding over a deep network stays below 1e-5; mixing samples shows at 1e-2 and above.
constexpr double kTolerance = 1e-3;

// Training mode without dropout until the scope ends.
class NoDropoutScope {
 public:
  explicit NoDropoutScope(torch::nn::Module& module) : before_(module) {
    set_training(module);
    for (const auto& part : module.modules(/*include_self=*/false)) {
      if (part->name().find("Dropout") != std::string::npos) part->eval();
    }
  }

 private:
  ModeScope before_;
};

Batch load(Workbench& bench, const Piece& piece) {
  Loader loader(*bench.data.train, bench.stream, repeated({piece}),
                {.prefetch = 0, .channels_last = bench.loader.channels_last});
  return bench.device->upload(*loader.next());
}

// Half of a batch, padded as all of it is.
Batch part_of(const Batch& whole, int64_t first) {
  Batch part =
      whole.with_each_of_samples([&](const torch::Tensor& tensor) { return tensor.narrow(0, first, kHalf); });
  part.samples = kHalf;
  return part;
}

// What the gradient of the loss is for half of a batch, for training has it scaled: a hook that clips or
// normalises gradients makes other ones of it. A power of two changes no other bit.
constexpr double kScale = 1024;

struct Gradient {
  std::vector<torch::Tensor> parts;  // of the loss sum, scaled
  double weight = 0;
};

// A gradient that may be written to: dense, and neither another parameter's nor one number that stands for
// many.
torch::Tensor to_write_to(torch::Tensor gradient) {
  if (gradient.is_sparse()) return gradient.to_dense();
  const bool own = gradient.is_non_overlapping_and_dense() && gradient.use_count() == 1 &&
                   gradient.storage().use_count() == 1;
  return own ? gradient : gradient.clone(at::MemoryFormat::Contiguous);
}

Gradient gradient_of(Workbench& bench, const Batch& batch, double scale = 1) {
  const AutocastScope full_precision(bench.device->torch_device().type(), Precision::kFp32);
  const LossTerms terms = loss_terms(*bench.task, batch);
  std::vector<torch::Tensor> parameters;
  for (const NamedTensor& parameter : bench.optimizer->parameters()) {
    if (parameter.tensor.requires_grad()) parameters.push_back(parameter.tensor);  // not frozen for now
  }
  Gradient gradient;
  try {
    gradient.parts =
        torch::autograd::grad({terms.sum}, parameters, {at::full_like(terms.sum, scale)},
                              /*retain_graph=*/std::nullopt, /*create_graph=*/false, /*allow_unused=*/true);
  } catch (const std::exception&) {
    rethrow_from_backward({"Task::loss", runs_own_code(bench.task->module())});
  }
  for (torch::Tensor& part : gradient.parts) {
    if (part.defined()) part = to_write_to(std::move(part));
  }
  gradient.weight = terms.weight.item<double>();
  return gradient;
}

struct Difference {
  double sums = 0;     // ‖whole − Σ halves‖ ÷ ‖whole‖
  double weights = 0;  // of the halves together ÷ that of the whole, less 1

  double worst() const { return std::max(sums, std::abs(weights)); }
};

// The halves are subtracted in place, so that only two gradients live at once.
Difference difference_of_halves(Gradient whole, Workbench& bench, const std::vector<Batch>& halves) {
  double norm = 0;
  for (const torch::Tensor& part : whole.parts) {
    if (part.defined()) norm += part.square().sum().item<double>();
  }
  double weight = 0;
  for (const Batch& half : halves) {
    const Gradient gradient = gradient_of(bench, half, kScale);
    weight += gradient.weight;
    for (size_t i = 0; i < whole.parts.size(); ++i) {
      if (whole.parts[i].defined() && gradient.parts[i].defined())
        whole.parts[i].sub_(gradient.parts[i], 1 / kScale);
    }
  }
  double rest = 0;
  for (const torch::Tensor& part : whole.parts) {
    if (part.defined()) rest += part.square().sum().item<double>();
  }
  return {.sums = norm > 0 ? std::sqrt(rest / norm) : 0,
          .weights = whole.weight != 0 ? weight / whole.weight - 1 : 0};
}

// Each half counts as much as the whole: with the number of samples as its weight, or with 1.
bool is_mean(Workbench& bench, const Batch& whole, const std::vector<Batch>& halves) {
  Gradient twice = gradient_of(bench, whole);
  for (torch::Tensor& part : twice.parts) {
    if (part.defined()) part.mul_(2);
  }
  const Difference difference = difference_of_halves(std::move(twice), bench, halves);
  return difference.sums <= kTolerance &&
         (std::abs(difference.weights) <= kTolerance || std::abs(difference.weights - 1) <= kTolerance);
}

SplitVerdict::Kind kind_of(const std::string& operation) {
  const auto any_of = [&](std::initializer_list<const char*> words) {
    return std::any_of(words.begin(), words.end(),
                       [&](const char* word) { return operation.find(word) != std::string::npos; });
  };
  if (any_of({"batch_norm"})) return SplitVerdict::Kind::kBatchNorm;
  if (any_of({"dropout", "bernoulli", "rand", "normal_", "multinomial", "uniform_", "exponential_", "rrelu",
              "poisson", "cauchy_", "geometric_", "binomial", "dirichlet", "standard_gamma",
              "fractional_max_pool"})) {
    return SplitVerdict::Kind::kRandom;
  }
  return SplitVerdict::Kind::kMixes;
}

// ‖a − b‖ ÷ ‖a‖ of the losses' gradients.
double difference_of(const Gradient& a, const Gradient& b) {
  double norm = 0, gap = 0;
  for (size_t i = 0; i < a.parts.size(); ++i) {
    if (!a.parts[i].defined() || !b.parts[i].defined()) continue;
    norm += a.parts[i].square().sum().item<double>();
    gap += (a.parts[i] - b.parts[i]).square().sum().item<double>();
  }
  return norm > 0 ? std::sqrt(gap / norm) : 0;
}

// Why two passes of the same samples are not the same, if they are not.
enum class Unrepeated { kNo, kRandom, kCarried };

// The gradient of the whole again: with the same random numbers, then with others.
Unrepeated repeat_whole(Workbench& bench, const Batch& whole, const std::function<void(int64_t)>& seed) {
  seed(0);
  const Gradient first = gradient_of(bench, whole);
  seed(0);
  if (difference_of(first, gradient_of(bench, whole)) > kTolerance) return Unrepeated::kCarried;
  seed(1);
  return difference_of(first, gradient_of(bench, whole)) > kTolerance ? Unrepeated::kRandom : Unrepeated::kNo;
}

// Of the gradient and that of the scaled loss, scaled back.
double difference_of_scales(Workbench& bench, const Batch& whole, const std::function<void()>& reseed) {
  reseed();
  const Gradient one = gradient_of(bench, whole);
  reseed();
  Gradient scaled = gradient_of(bench, whole, kScale);
  for (torch::Tensor& part : scaled.parts) {
    if (part.defined()) part.div_(kScale);
  }
  return difference_of(one, scaled);
}

// Whether another last sample changes what becomes of those before it, random numbers being the same.
bool mixes_samples(Workbench& bench, const Batch& whole, const std::function<void()>& reseed) {
  const Batch other = whole.with_each_of_samples([&](const torch::Tensor& tensor) {
    return at::cat({tensor.narrow(0, 0, whole.samples - 1), tensor.narrow(0, 0, 1)});
  });
  reseed();
  const OperationTrace one(*bench.task, {whole});
  reseed();
  const OperationTrace another(*bench.task, {other});
  const size_t count = std::min(one.operations().size(), another.operations().size());
  for (size_t i = 0; i < count; ++i) {
    const OperationTrace::Operation &a = one.operations()[i], &b = another.operations()[i];
    // Whether the rows are the samples is known of those that keep their last one's figure apart.
    if (a.rows != whole.samples || b.rows != whole.samples || a.samples.size() != b.samples.size()) continue;
    for (size_t j = 0; j + 1 < a.samples.size(); ++j) {
      const double size = std::max(std::abs(a.samples[j]), std::abs(b.samples[j]));
      if (std::abs(a.samples[j] - b.samples[j]) > kTolerance * size) return true;
    }
  }
  return false;
}

// Seeds what a pass draws: the same for the same number.
std::function<void(int64_t)> seed_of(const Workbench& bench) {
  return [device = bench.device->torch_device(), seed = bench.step.options().seed](int64_t window) {
    seed_for_micro_batch(device, seed, window, 0);
  };
}

SplitVerdict run_check(Workbench& bench) {
  const Batch whole = load(bench, consecutive(0, 2 * kHalf));
  const std::vector<Batch> halves = {load(bench, consecutive(0, kHalf)),
                                     load(bench, consecutive(kHalf, kHalf))};
  SplitVerdict verdict{.samples = 2 * kHalf, .operation = "", .module = ""};
  const auto seed = seed_of(bench);
  const auto reseed = [&] { seed(0); };
  reseed();
  verdict.difference = difference_of_halves(gradient_of(bench, whole), bench, halves).worst();
  if (verdict.difference <= kTolerance) return verdict;

  const bool shares = !whole.shared.empty();  // then only the data set can cut it
  const auto padded_alike = shares ? halves : std::vector<Batch>{part_of(whole, 0), part_of(whole, kHalf)};
  reseed();
  if (has_costs(*bench.data.train) &&
      difference_of_halves(gradient_of(bench, whole), bench, padded_alike).worst() <= kTolerance) {
    verdict.kind = SplitVerdict::Kind::kPadding;
    return verdict;
  }
  reseed();
  if (is_mean(bench, whole, halves)) {
    verdict.kind = SplitVerdict::Kind::kMean;
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
  if (verdict.kind != SplitVerdict::Kind::kMixes) return verdict;
  // What seems to mix samples may only be the first place where something else shows.
  const Unrepeated why = repeat_whole(bench, whole, seed);
  if (why == Unrepeated::kCarried) {
    verdict.kind = SplitVerdict::Kind::kCarried;
    verdict.operation = verdict.module = "";
  }
  if (why == Unrepeated::kNo) {
    const double unlike = difference_of_scales(bench, whole, reseed);
    if (unlike > kTolerance)
      return {.kind = SplitVerdict::Kind::kClipped, .difference = unlike, .samples = 2 * kHalf};
  }
  const auto& operations = at_once.operations();
  const auto draws = std::ranges::find_if(operations, [](const OperationTrace::Operation& operation) {
    return kind_of(operation.name) == SplitVerdict::Kind::kRandom;
  });
  if (why == Unrepeated::kRandom && draws != operations.end() &&
      (shares || !mixes_samples(bench, whole, reseed))) {
    verdict.kind = SplitVerdict::Kind::kRandom;
    verdict.operation = draws->name;
    verdict.module = draws->module;
  }
  return verdict;
}

SplitVerdict run_scales_check(Workbench& bench) {
  const Batch whole = load(bench, consecutive(0, 2 * kHalf));
  const auto seed = seed_of(bench);
  SplitVerdict verdict{.samples = 2 * kHalf};
  verdict.difference = difference_of_scales(bench, whole, [&] { seed(0); });
  const bool clipped = verdict.difference > kTolerance && repeat_whole(bench, whole, seed) == Unrepeated::kNo;
  if (clipped) verdict.kind = SplitVerdict::Kind::kClipped;
  return verdict;
}

SplitVerdict not_checked() {
  return {.kind = SplitVerdict::Kind::kNotChecked, .operation = "", .module = ""};
}

SplitVerdict checked(Workbench& bench, SplitVerdict (*check)(Workbench&)) {
  const Network* const network = as_network(bench.task->module());
  const bool full_precision = network == nullptr || network->computes_in(Precision::kFp32);
  if (bench.data.train->size() < 2 * kHalf || !full_precision) return not_checked();
  const GeneratorScope generators(bench.device->torch_device());
  const NoDropoutScope mode(bench.task->module());
  try {
    const BufferScope buffers(*bench.task);
    bench.task->begin_update({.update = 1, .trial = true});  // which may make what the loss takes
    return check(bench);
  } catch (const std::exception& error) {
    if (classify_failure(error) == Failure::kOther) throw;
    return not_checked();
  }
}

}  // namespace

SplitVerdict check_split(Workbench& bench) {
  return checked(bench, run_check);
}

SplitVerdict check_proportional(Workbench& bench) {
  try {
    return checked(bench, run_scales_check);
  } catch (const Error&) {
    // The loss of a task that makes its passes itself is of evaluations alone: it may have no gradient, or
    // refuse so few samples.
    if (!bench.task->makes_passes()) throw;
    return not_checked();
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
    case Kind::kCarried:
      return compared +
             ": what a pass leaves behind changes the next one (a recurrent state that is carried on, a "
             "counter), "
             "so it depends on how batches are cut, and on the samples before";
    case Kind::kClipped:
      return cat(
          "split check: the gradient of ", samples,
          " samples is not proportional to that of their loss, which is scaled in training: of 1,024 × "
          "the loss it is ",
          fixed(difference * 100, 4),
          " % off. A hook or an autograd function clips or normalises gradients. Clip them by "
          "optimizer.clip_norm, or in before_step");
    case Kind::kMean:
      return compared +
             ": the loss looks like a mean over its micro-batch, so what a sample counts depends on the "
             "cut, and the rate on the number of samples. Return the sum over samples, and their number as "
             "its "
             "weight";
    case Kind::kPadding:
      return compared + ": what fills up shorter samples counts, so accumulating is not the big batch";
    case Kind::kNotChecked: return "split check: not made, for want of samples, memory or float32";
  }
  return "";
}

}  // namespace autotrain
