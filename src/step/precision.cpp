#include "step/precision.h"

#include <stdexcept>

#include "autotrain/error.h"
#include "base/text.h"
#include "device/device.h"
#include "model/models.h"

namespace autotrain {
namespace {

// The facts of one precision.
struct PrecisionFacts {
  torch::ScalarType product_type;
  bool half = false;
  bool scales_loss = false;
  bool trains = true;
};

PrecisionFacts facts_of(Precision precision) {
  switch (precision) {
    case Precision::kFp32: return {.product_type = torch::kFloat32};
    case Precision::kTf32: return {.product_type = torch::kFloat32};
    case Precision::kBf16: return {.product_type = torch::kBFloat16, .half = true};
    case Precision::kFp16: return {.product_type = torch::kHalf, .half = true, .scales_loss = true};
    case Precision::kInt8: return {.product_type = torch::kFloat32, .trains = false};
    case Precision::kAuto: break;
  }
  throw std::logic_error("the precision is resolved before it is used");
}

Precision best_on(const Device& device) {
  if (device.has_native_bf16()) return Precision::kBf16;
  return device.torch_device().is_cpu() ? Precision::kFp32 : Precision::kFp16;
}

}  // namespace

Precision resolve_precision(Precision asked, const Device& device, const torch::nn::Module& model) {
  if (asked == Precision::kTf32 && !device.has_tf32()) {
    throw Error(ExitCode::kBadRecipe, "execution.precision",
                cat("tf32 is not what ", device.name(), " can do"),
                "it takes an NVIDIA GPU of compute capability 8.0 or newer; use fp32 or auto");
  }
  if (asked != Precision::kAuto) return asked;
  const Network* const network = as_network(model);
  const auto best = best_on(device);
  for (const Precision each : {best, Precision::kFp32, Precision::kBf16, Precision::kFp16}) {
    if (network == nullptr || network->computes_in(each)) return each;
  }
  return best;
}

void check_trains(Precision precision) {
  if (precision == Precision::kAuto || facts_of(precision).trains) return;
  throw Error(
      ExitCode::kBadRecipe, "execution.precision",
      "int8 is what autotrain sweep measures: nothing is trained, evaluated or predicted in it",
      "use fp32, bf16 or auto; autotrain compress --methods int8-weights writes weights of eight bits");
}

void set_products(Precision precision, Device& device) {
  device.allow_tf32(precision == Precision::kTf32);
}

int64_t preferred_multiple(Precision precision, const Device& device) {
  constexpr int64_t kTensorCoreRows = 8;  // of two-byte operands, as NVIDIA's guide to tensor cores asks for
  return is_half(precision) && !device.torch_device().is_cpu() ? kTensorCoreRows : 1;
}

torch::ScalarType product_type(Precision precision) {
  return facts_of(precision).product_type;
}

bool is_half(Precision precision) {
  return facts_of(precision).half;
}

bool scales_loss(Precision precision) {
  return facts_of(precision).scales_loss;
}

std::optional<Precision> faster_precision(Precision precision, const Device& device) {
  if (is_half(precision) || !device.has_native_bf16()) return std::nullopt;
  return Precision::kBf16;
}

std::vector<Precision> precisions_to_compare(bool on_gpu) {
  if (on_gpu) return {Precision::kFp32, Precision::kTf32, Precision::kBf16, Precision::kFp16};
  return {Precision::kFp32, Precision::kBf16};
}

}  // namespace autotrain
