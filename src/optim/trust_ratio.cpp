#include "optim/trust_ratio.h"

#include <ATen/Parallel.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/div.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/units.h"

namespace autotrain {
namespace {

constexpr int64_t kPiece = 8192;

// In eight sums, so that a processor can do as many at once.
double sum_of_squares(const float* values, int64_t count) {
  std::array<double, 8> sums{};
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    for (int64_t lane = 0; lane < 8; ++lane) {
      const double value = values[i + lane];
      sums[static_cast<size_t>(lane)] += value * value;
    }
  }
  for (; i < count; ++i) sums[0] += static_cast<double>(values[i]) * values[i];
  double sum = 0;
  for (const double each : sums) sum += each;
  return sum;
}

}  // namespace

TensorNorms::TensorNorms(int64_t largest) : sums_(static_cast<size_t>(ceil_div(largest, kPiece))) {}

void TensorNorms::operator()(const torch::Tensor& tensor, torch::Tensor scratch, torch::Tensor out) {
  if (!tensor.is_cpu()) {
    at::linalg_vector_norm_out(out, tensor);
    return;
  }
  const torch::Tensor dense = tensor.is_non_overlapping_and_dense() ? tensor : scratch.copy_(tensor);
  const float* const values = dense.const_data_ptr<float>();
  const int64_t count = dense.numel(), pieces = ceil_div(count, kPiece);
  at::parallel_for(0, pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      sums_[static_cast<size_t>(i)] =
          sum_of_squares(values + i * kPiece, std::min(kPiece, count - i * kPiece));
    }
  });
  double sum = 0;
  for (int64_t i = 0; i < pieces; ++i) sum += sums_[static_cast<size_t>(i)];
  out.fill_(std::sqrt(sum));
}

void TensorNorms::operator()(at::TensorList tensors, at::TensorList scratch, torch::Tensor out) {
  if (!out.is_cpu()) {
    at::stack_out(out, at::_foreach_norm(tensors));
    return;
  }
  for (size_t i = 0; i < tensors.size(); ++i)
    (*this)(tensors[i], scratch[i], out.select(0, static_cast<int64_t>(i)));
}

TrustRatios::TrustRatios(torch::Device device, size_t most) {
  const auto options = torch::TensorOptions().dtype(torch::kFloat32).device(device);
  const auto count = static_cast<int64_t>(most);
  for (torch::Tensor* const norms : {&weights_, &updates_, &ratios_}) *norms = torch::zeros({count}, options);
  some_weights_ = torch::zeros({count}, options.dtype(torch::kBool));
  some_updates_ = torch::zeros_like(some_weights_);
  zero_ = torch::zeros({}, options);
  one_ = torch::ones({}, options);
  each_ = ratios_.unbind();
}

at::TensorList TrustRatios::ratios() {
  torch::Tensor ratios = ratios_.narrow(0, 0, layers_), some = some_weights_.narrow(0, 0, layers_),
                some_updates = some_updates_.narrow(0, 0, layers_);
  at::gt_out(some, weights(), zero_);
  at::gt_out(some_updates, updates(), zero_);
  some.logical_and_(some_updates);
  at::div_out(ratios, weights(), updates());
  at::where_out(ratios, some, ratios, one_);
  return at::TensorList(each_).slice(0, static_cast<size_t>(layers_));
}

}  // namespace autotrain
