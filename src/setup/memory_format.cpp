#include "setup/memory_format.h"

#include <ATen/Context.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>
#include <vector>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/text.h"
#include "data/channels_last.h"
#include "device/failure.h"
#include "device/generators.h"
#include "model/models.h"
#include "plan/scopes.h"
#include "setup/first_samples.h"
#include "step/operator_scope.h"
#include "step/precision.h"
#include "step/update_step.h"

namespace autotrain {
namespace {

// What losses in both formats are computed in, and how far they may be apart.
struct Yardstick {
  Precision precision = Precision::kFp32;
  // float32 rounding over a deep network stays below 1e-5; a module that reads the wrong pixels is far off.
  double tolerance = 1e-3;
};

// A model that was prepared for half precision alone rounds to some 2⁻⁸ in every layer.
Yardstick yardstick_for(const torch::nn::Module& module, Precision precision) {
  const Network* const network = as_network(module);
  if (network == nullptr || network->computes_in(Precision::kFp32)) return {};
  return {.precision = precision, .tolerance = 1e-2};
}

// These kernels of LibTorch lose more in channels last than convolutions gain. scripts/bench/memory_format.py
// measures the first of them, in the detector.
constexpr std::array<std::string_view, 5> kSlowInChannelsLast = {
    "aten::group_norm", "aten::native_group_norm", "aten::instance_norm", "aten::pixel_shuffle",
    "aten::channel_shuffle"};

// On CPUs the backward pass of such a convolution, 1 × 1 with a stride over few channels, writes beyond its
// memory in channels last (oneDNN in LibTorch 2.11; PyTorch alone ends so, too:
// tests/model/memory_format_test.cpp).
bool breaks_in_channels_last(c10::ArrayRef<const c10::IValue> inputs) {
  constexpr size_t kWeight = 1, kStride = 3;
  constexpr int64_t kWholeVector = 16;
  if (inputs.size() <= kStride || !inputs[kWeight].isTensor() || !inputs[kStride].isIntList()) return false;
  const torch::Tensor& weight = inputs[kWeight].toTensor();
  const std::vector<int64_t> strides = inputs[kStride].toIntVector();
  return weight.defined() && weight.is_cpu() && weight.dim() == 4 && weight.size(2) == 1 &&
         weight.size(3) == 1 && weight.size(1) < kWholeVector &&
         std::ranges::any_of(strides, [](int64_t stride) { return stride > 1; });
}

// So does that of group normalisation on CPUs where its weights learn and nothing before it does: it is not
// asked for the gradient of the images and writes it all the same, to nowhere.
bool writes_to_no_images(c10::ArrayRef<const c10::IValue> inputs) {
  if (inputs.size() < 2 || !inputs[0].isTensor() || !inputs[1].isTensor()) return false;
  const torch::Tensor &images = inputs[0].toTensor(), &weight = inputs[1].toTensor();
  return at::GradMode::is_enabled() && images.is_cpu() && !images.requires_grad() && weight.defined() &&
         weight.requires_grad();
}

// Which operators of a forward pass speak against channels last.
struct SlowOperators {
  void start(const at::RecordFunction& function) {
    const std::string_view name = function.name();
    if (std::ranges::find(kSlowInChannelsLast, name) != kSlowInChannelsLast.end()) found = name;
    if (name == "aten::convolution" && breaks_in_channels_last(function.inputs()))
      broken =
          "the backward pass of a convolution of 1 x 1 with a stride, over fewer than 16 channels, "
          "writes beyond its memory there";
    if (name == "aten::native_group_norm" && writes_to_no_images(function.inputs()))
      broken =
          "the backward pass of a group normalisation before which nothing learns writes beyond its "
          "memory there";
  }
  void end(const at::RecordFunction&) {}
  std::string found = {};
  std::string broken = {};
};

bool has_weights_of_convolutions(const torch::nn::Module& module) {
  return std::ranges::any_of(module.parameters(),
                             [](const torch::Tensor& parameter) { return parameter.dim() == 4; });
}

// Half precision on a GPU because the kernels of its tensor cores work on channels last: cuDNN turns
// contiguous images round before and after each of them.
bool may_gain(Precision precision, const Device& device) {
  return device.torch_device().is_cpu() || is_half(precision);
}

double loss_of(Task& task, const Batch& batch, Precision precision) {
  const EvaluationMode mode(task.module());
  return evaluate_batch(task, batch, precision).loss.sum.item<double>();
}

// A reason against channels last.
struct Objection {
  std::string slow = {};    // an operator that runs slower; "" for none
  std::string broken = {};  // what goes wrong; "" for nothing
};

// Fills what kernels allocate with numbers that are none: a kernel that reads memory which nobody wrote then
// always shows it, instead of in one run of two.
class FilledMemoryScope {
 public:
  FilledMemoryScope() {
    at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
    at::globalContext().setDeterministicFillUninitializedMemory(true);
  }
  ~FilledMemoryScope() {
    at::globalContext().setDeterministicFillUninitializedMemory(filled_);
    at::globalContext().setDeterministicAlgorithms(deterministic_, warn_only_);
  }
  FilledMemoryScope(const FilledMemoryScope&) = delete;
  FilledMemoryScope& operator=(const FilledMemoryScope&) = delete;

 private:
  const bool deterministic_ = at::globalContext().deterministicAlgorithms(),
             warn_only_ = at::globalContext().deterministicAlgorithmsWarnOnly(),
             filled_ = at::globalContext().deterministicFillUninitializedMemory();
};

// Kernels that repeat and those that do not are others: memory is filled in the one run and not in the next.
std::vector<double> gradient_norms(const std::function<double(const Batch&)>& learn, const Batch& batch) {
  std::vector<double> norms = {learn(batch)};
  const FilledMemoryScope filled;
  norms.push_back(learn(batch));
  return norms;
}

// What is wrong with gradients of channels last; "" for nothing. Those that differ by rounding, or by what
// dropout left out, do not differ by a factor of two.
std::string fault_of_gradients(const std::vector<double>& contiguous, const std::vector<double>& norms) {
  constexpr double kFactor = 2;
  for (size_t i = 0; i < norms.size(); ++i) {
    const bool alike = norms[i] <= kFactor * contiguous[i] && contiguous[i] <= kFactor * norms[i];
    if (alike || !std::isfinite(contiguous[i])) continue;
    return cat("the norm of its gradients would be ", brief(norms[i]), " instead of ", brief(contiguous[i]));
  }
  return "";
}

// Returns nothing when the model fails with contiguous images too: then the format is not the cause.
std::optional<Objection> find_objection(Task& task, const Batch& batch, const Yardstick& yardstick,
                                        const std::function<double(const Batch&)>& learn) {
  if (batch.inputs.dim() != 4) return Objection{"", "samples are no images [C, H, W]"};
  const BufferScope buffers(task);
  SlowOperators slow;
  double contiguous = 0;
  std::vector<double> gradients;
  try {
    const OperatorScope<SlowOperators> scope(slow);
    contiguous = loss_of(task, batch, yardstick.precision);
    gradients = gradient_norms(learn, batch);
  } catch (const std::exception&) {
    return std::nullopt;
  }
  if (!slow.broken.empty()) return Objection{slow.found, slow.broken};
  try {
    Batch other = batch;
    other.inputs = channels_last(batch.inputs);
    const double loss = loss_of(task, other, yardstick.precision);
    if (!(std::abs(loss - contiguous) <= yardstick.tolerance * std::abs(contiguous))) {
      return Objection{slow.found, cat("the model does not take it: its loss on ", batch.samples,
                                       " samples would be ", brief(loss), " instead of ", brief(contiguous))};
    }
    return Objection{slow.found, fault_of_gradients(gradients, gradient_norms(learn, other))};
  } catch (const std::exception& error) {
    return Objection{slow.found, "the model does not take it: " + first_line(error)};
  }
}

[[noreturn]] void fail_asked(const std::string& why) {
  throw Error(ExitCode::kBadRecipe, "execution.memory_format", "channels_last: " + why,
              "execution.memory_format: auto");
}

}  // namespace

MemoryFormat resolve_memory_format(const Recipe& recipe, Precision precision, Device& device, Task& task,
                                   const Dataset& train, const std::function<double(const Batch&)>& learn) {
  const MemoryFormat asked = recipe.execution.memory_format;
  const bool by_rule = asked == MemoryFormat::kAuto;
  const bool convolutions = has_weights_of_convolutions(task.module());
  if (asked == MemoryFormat::kContiguous || (by_rule && !(convolutions && may_gain(precision, device))))
    return MemoryFormat::kContiguous;
  if (!convolutions) fail_asked("the model has no convolutions");

  const GeneratorScope generators(device.torch_device());
  const std::optional<Batch> batch = first_samples(device, train);
  if (!batch) return by_rule ? MemoryFormat::kContiguous : asked;
  const std::optional<Objection> against =
      find_objection(task, *batch, yardstick_for(task.module(), precision), learn);
  if (!by_rule) {
    if (against && !against->broken.empty()) fail_asked(against->broken);
    return asked;
  }
  if (against && against->broken.empty() && against->slow.empty()) return MemoryFormat::kChannelsLast;
  if (against) {
    log::debug("trainer",
               "images stay contiguous: " +
                   (against->broken.empty() ? against->slow + " is slow in channels last" : against->broken));
  }
  return MemoryFormat::kContiguous;
}

}  // namespace autotrain
