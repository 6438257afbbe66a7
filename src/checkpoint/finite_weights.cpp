#include "checkpoint/finite_weights.h"

#include <ATen/ops/aminmax.h>
#include <ATen/ops/isfinite.h>

#include <cmath>

#include "autotrain/error.h"
#include "base/text.h"
#include "base/units.h"

namespace autotrain {
namespace {

// The least and the most number are NaN where any is, and take no memory of the weights' size.
bool is_finite(const torch::Tensor& weights) {
  const auto [least, most] = at::aminmax(weights);
  return std::isfinite(least.item<double>()) && std::isfinite(most.item<double>());
}

}  // namespace

void check_finite_parameters(const torch::nn::Module& module, const std::string& where) {
  const torch::NoGradGuard no_gradients;
  for (const auto& item : module.named_parameters()) {
    const torch::Tensor& weights = item.value();
    if (!weights.is_floating_point() || weights.numel() == 0 || is_finite(weights)) continue;
    const int64_t bad = weights.numel() - at::isfinite(weights).sum().item<int64_t>();
    throw Error(ExitCode::kBadData, where,
                cat(quote(item.key()), " has ", format_count(bad), " of ", format_count(weights.numel()),
                    " numbers that are not finite as ", c10::toString(weights.scalar_type())),
                "the run that wrote them had diverged, or they are beyond that type's range: take an earlier "
                "checkpoint or another file");
  }
}

}  // namespace autotrain
