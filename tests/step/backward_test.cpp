#include "step/backward.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>

namespace autotrain {
namespace {

// Its gradient is a tensor that it keeps.
struct WithKeptGradient : torch::autograd::Function<WithKeptGradient> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& x,
                               const torch::Tensor& kept) {
    context->saved_data["kept"] = kept;
    return x.sum();
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               const torch::autograd::tensor_list&) {
    return {context->saved_data["kept"].toTensor().view({-1}), torch::Tensor()};
  }
};

TEST(GoBackward, GradientsThatAreViewsOfOneTensorHaveMemoryOfTheirOwn) {
  const torch::Tensor one = torch::zeros(3).requires_grad_(), other = torch::zeros(3).requires_grad_(),
                      joined = torch::zeros({1, 3}).requires_grad_();
  const std::vector<NamedTensor> parameters = {{"one", one}, {"other", other}, {"joined", joined}};
  const torch::Tensor factor = torch::tensor({1.0F, 2.0F, 4.0F});
  for (int pass = 0; pass < 2; ++pass) {
    const torch::Tensor sum = ((one.unsqueeze(0) + (other.unsqueeze(0) + joined)) * factor).sum();
    go_backward({"Task::loss"}, sum, torch::ones({}), parameters);
  }
  for (const NamedTensor& parameter : parameters) {
    torch::Tensor gradient = parameter.tensor.grad();
    EXPECT_TRUE(gradient.flatten().equal(2 * factor)) << parameter.name;
    gradient.div_(2);
  }
  for (const NamedTensor& parameter : parameters) {
    EXPECT_TRUE(parameter.tensor.grad().flatten().equal(factor)) << parameter.name;
  }
}

TEST(GoBackward, GradientsAreNeitherTheSeedNorWhatAnOperationKeeps) {
  const torch::Tensor scale = torch::zeros(1).requires_grad_(), shift = torch::zeros(1).requires_grad_(),
                      other = torch::zeros(2).requires_grad_();
  const std::vector<NamedTensor> parameters = {{"scale", scale}, {"shift", shift}, {"other", other}};
  const torch::Tensor seed = torch::ones({}), kept = torch::ones(2);
  go_backward({"Task::loss"}, scale.sum() + shift.sum() + WithKeptGradient::apply(other, kept), seed,
              parameters);
  for (const NamedTensor& parameter : parameters) parameter.tensor.mutable_grad().div_(4);
  EXPECT_EQ(seed.item<float>(), 1);
  EXPECT_TRUE(kept.equal(torch::ones(2)));
  for (const NamedTensor& parameter : parameters)
    EXPECT_TRUE(parameter.tensor.grad().eq(0.25).all().item<bool>()) << parameter.name;
}

// A buffer of all gradients stays what they are parts of.
TEST(GoBackward, WhatIsAddedToStaysWhereItIs) {
  const torch::Tensor flat = torch::zeros(4), weight = torch::zeros(4).requires_grad_();
  weight.mutable_grad() = flat.view({4});
  go_backward({"Task::loss"}, (2 * weight).sum(), torch::ones({}), {{"weight", weight}});
  EXPECT_TRUE(flat.equal(torch::full(4, 2.0F)));
}

}  // namespace
}  // namespace autotrain
