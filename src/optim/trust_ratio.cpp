#include "optim/trust_ratio.h"

#include <ATen/Parallel.h>
#include <ATen/ops/div.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/linalg_vector_norm.h>
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

TensorNorm::TensorNorm(int64_t largest) : sums_(static_cast<size_t>(ceil_div(largest, kPiece))) {}

void TensorNorm::operator()(const torch::Tensor& tensor, torch::Tensor scratch, torch::Tensor out) {
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

TrustRatio::TrustRatio(torch::Device device) {
  const auto options = torch::TensorOptions().dtype(torch::kFloat32).device(device);
  for (torch::Tensor* const scalar : {&weights, &update, &zero_, &ratio_})
    *scalar = torch::zeros({}, options);
  one_ = torch::ones({}, options);
  some_weights_ = torch::zeros({}, options.dtype(torch::kBool));
  some_update_ = torch::zeros_like(some_weights_);
}

const torch::Tensor& TrustRatio::ratio() {
  at::gt_out(some_weights_, weights, zero_);
  at::gt_out(some_update_, update, zero_);
  some_weights_.logical_and_(some_update_);
  at::div_out(ratio_, weights, update);
  return at::where_out(ratio_, some_weights_, ratio_, one_);
}

}  // namespace autotrain
