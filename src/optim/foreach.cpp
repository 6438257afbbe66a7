#include "optim/foreach.h"

#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_div.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_sub.h>
#include <ATen/ops/div.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sub.h>

namespace autotrain {
namespace {

// @param one computes out from a single tensor; @param together changes all of `out`, which holds `a` then.
template <class One, class Together>
void compute(at::TensorList out, at::TensorList a, One one, Together together) {
  if (out.size() == 1) {
    torch::Tensor only = out[0];
    one(only, a[0]);
    return;
  }
  at::_foreach_copy_(out, a);
  together();
}

}  // namespace

void foreach_product(at::TensorList out, at::TensorList a, const torch::Tensor& b) {
  compute(
      out, a, [&](torch::Tensor& to, const torch::Tensor& from) { at::mul_out(to, from, b); },
      [&] { at::_foreach_mul_(out, b); });
}

void foreach_product(at::TensorList out, at::TensorList a, at::TensorList b) {
  compute(
      out, a, [&](torch::Tensor& to, const torch::Tensor& from) { at::mul_out(to, from, b[0]); },
      [&] { at::_foreach_mul_(out, b); });
}

void foreach_quotient(at::TensorList out, at::TensorList a, const torch::Tensor& b) {
  compute(
      out, a, [&](torch::Tensor& to, const torch::Tensor& from) { at::div_out(to, from, b); },
      [&] { at::_foreach_div_(out, b); });
}

void foreach_difference(at::TensorList out, at::TensorList a, at::TensorList b) {
  compute(
      out, a, [&](torch::Tensor& to, const torch::Tensor& from) { at::sub_out(to, from, b[0]); },
      [&] { at::_foreach_sub_(out, b); });
}

}  // namespace autotrain
