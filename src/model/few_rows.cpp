#include "model/few_rows.h"

#include <ATen/autocast_mode.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace autotrain {
namespace {

constexpr int64_t kMostRows = 16;

thread_local bool few_rows_as_columns = false;

}  // namespace

FewRowsScope::FewRowsScope() : before_(std::exchange(few_rows_as_columns, true)) {}

FewRowsScope::~FewRowsScope() {
  few_rows_as_columns = before_;
}

bool takes_columns(const torch::Tensor& inputs, const torch::Tensor& weight) {
  const int64_t rows = inputs.numel() / inputs.size(-1);
  return few_rows_as_columns && rows <= kMostRows && inputs.is_cpu() &&
         inputs.scalar_type() == torch::kFloat32 && weight.scalar_type() == torch::kFloat32 &&
         !torch::GradMode::is_enabled() && !at::autocast::is_autocast_enabled(at::kCPU);
}

torch::Tensor linear_by_columns(const torch::Tensor& inputs, const torch::Tensor& weight,
                                const torch::Tensor& bias) {
  const torch::Tensor rows = inputs.reshape({-1, inputs.size(-1)});
  // In memory one column lies behind the other: elsewhere BLAS takes another way, which is slow.
  const torch::Tensor columns = rows.expand({std::max<int64_t>(2, rows.size(0)), -1}).contiguous().t();
  const torch::Tensor product =
      bias.defined() ? at::addmm(bias.unsqueeze(1), weight, columns) : at::mm(weight, columns);
  std::vector<int64_t> shape = inputs.sizes().vec();
  shape.back() = weight.size(0);
  return product.narrow(1, 0, rows.size(0)).t().contiguous().view(shape);
}

}  // namespace autotrain
