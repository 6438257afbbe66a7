#include "optim/foreach.h"

#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_div.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_sub.h>
#include <ATen/ops/div.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sub.h>

namespace autotrain {

void foreach_product(at::TensorList out, at::TensorList a, const torch::Tensor& b) {
  if (out.size() == 1) {
    torch::Tensor only = out[0];
    at::mul_out(only, a[0], b);
    return;
  }
  at::_foreach_copy_(out, a);
  at::_foreach_mul_(out, b);
}

void foreach_product(at::TensorList out, at::TensorList a, at::TensorList b) {
  if (out.size() == 1) {
    torch::Tensor only = out[0];
    at::mul_out(only, a[0], b[0]);
    return;
  }
  at::_foreach_copy_(out, a);
  at::_foreach_mul_(out, b);
}

void foreach_quotient(at::TensorList out, at::TensorList a, const torch::Tensor& b) {
  if (out.size() == 1) {
    torch::Tensor only = out[0];
    at::div_out(only, a[0], b);
    return;
  }
  at::_foreach_copy_(out, a);
  at::_foreach_div_(out, b);
}

void foreach_difference(at::TensorList out, at::TensorList a, at::TensorList b) {
  if (out.size() == 1) {
    torch::Tensor only = out[0];
    at::sub_out(only, a[0], b[0]);
    return;
  }
  at::_foreach_copy_(out, a);
  at::_foreach_sub_(out, b);
}

}  // namespace autotrain
