#include "trainer/memory_format.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/text.h"
#include "data/channels_last.h"
#include "data/loader.h"
#include "device/failure.h"
#include "plan/scopes.h"
#include "step/generators.h"
#include "step/update_step.h"
#include "trainer/evaluator.h"

namespace autotrain {
namespace {

constexpr int64_t kSamples = 2;  // batch normalisation needs more than one
// float32 rounding over a deep network stays below 1e-5; a module that reads the wrong pixels is far off.
constexpr double kTolerance = 1e-3;

bool has_convolutions(const torch::nn::Module& module) {
  return std::ranges::any_of(module.parameters(),
                             [](const torch::Tensor& parameter) { return parameter.dim() == 4; });
}

// Half precision on a GPU because the kernels of its tensor cores work on channels last: cuDNN turns
// contiguous images round before and after each of them.
bool may_gain(Precision precision, const Device& device) {
  return device.torch_device().is_cpu() || precision == Precision::kBf16 || precision == Precision::kFp16;
}

// Nothing when they cannot be read: whoever needs them says why.
std::optional<Batch> first_samples(Device& device, const Dataset& train) {
  const int64_t size = train.size(), count = std::min(kSamples, size);
  try {
    Loader loader(train, Stream(0, size, /*shuffle=*/false), repeated({consecutive(0, count)}),
                  {.workers = 0, .prefetch = 0});
    return device.upload(*loader.next());
  } catch (const std::exception& error) {
    log::debug("trainer", cat("no samples to choose the memory format by: ", first_line(error)));
    return std::nullopt;
  }
}

double loss_of(Task& task, const Batch& batch) {
  const EvaluationMode mode(task.module());
  return evaluate_batch(task, batch, Precision::kFp32).loss.sum.item<double>();
}

// What is against channels last; "" when nothing is. What fails in both formats is no matter of formats, nor
// is memory.
std::string objection(Task& task, const Batch& batch, const std::function<void(const Batch&)>& run) {
  const BufferScope buffers(task.module());
  double contiguous = 0;
  try {
    contiguous = loss_of(task, batch);
    run(batch);
  } catch (const std::exception&) {
    return "";
  }
  try {
    const Batch other{channels_last(batch.inputs), batch.targets, batch.samples};
    const double loss = loss_of(task, other);
    if (std::abs(loss - contiguous) > kTolerance * std::abs(contiguous))
      return cat("its loss on ", batch.samples, " samples would be ", brief(loss), " instead of ",
                 brief(contiguous));
    run(other);
    return "";
  } catch (const std::exception& error) {
    return classify_failure(error) == Failure::kOther ? first_line(error) : "";
  }
}

[[noreturn]] void fail_asked(const std::string& why) {
  throw Error(ExitCode::kBadRecipe, "execution.memory_format", "channels_last: " + why,
              "use memory_format: auto");
}

}  // namespace

MemoryFormat resolve_memory_format(const Recipe& recipe, Precision precision, Device& device, Task& task,
                                   const Dataset& train, const std::function<void(const Batch&)>& run) {
  const MemoryFormat asked = recipe.execution.memory_format;
  const bool by_rule = asked == MemoryFormat::kAuto;
  const bool convolutions = has_convolutions(task.module());
  if (asked == MemoryFormat::kContiguous || (by_rule && !(convolutions && may_gain(precision, device))))
    return MemoryFormat::kContiguous;
  if (!convolutions) fail_asked("the model has no convolutions");

  const GeneratorScope generators(device.torch_device());
  const std::optional<Batch> batch = first_samples(device, train);
  if (!batch) return by_rule ? MemoryFormat::kContiguous : asked;
  const bool images = batch->inputs.dim() == 4;
  const std::string against = images ? objection(task, *batch, run) : "samples are no images [C, H, W]";
  if (against.empty()) return MemoryFormat::kChannelsLast;
  if (!by_rule) fail_asked(images ? "the model does not take it: " + against : against);
  if (images) log::info("plan", "images stay contiguous: the model does not take channels last: " + against);
  return MemoryFormat::kContiguous;
}

}  // namespace autotrain
