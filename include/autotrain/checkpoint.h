#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/types.h>

#include <functional>

namespace autotrain {

/// Computes a block of a model, a part that takes one tensor and gives one: returns `block(x)`. With
/// `execution.recompute` the forward pass of training keeps only `x` of it; the backward pass computes the
/// block again and gets, bit for bit, what it would have kept (Chen et al. 2016, arXiv:1604.06174): random
/// numbers are drawn again as they were, autocast is as it was, and buffers of `module`, such as running
/// statistics, are left as the forward pass left them. Otherwise, and within another block, it does nothing.
///
///     x = autotrain::checkpoint(*stage_, x, [this](const torch::Tensor& y) { return stage_->forward(y); });
///
/// `block` is called again when this call has long returned: what it captures by reference must live on.
/// The block may not change `x` in place, nor anything else that outlives it but the module's buffers, and
/// must compute the same when it is called again. @param module whose buffers the block changes.
/// @throws Error(kBrokenContract) in the backward pass where it does not keep to that.
torch::Tensor checkpoint(const torch::nn::Module& module, const torch::Tensor& x,
                         const std::function<torch::Tensor(const torch::Tensor& x)>& block);

/// Computes one module of a sequence after the other, each of them a block.
torch::Tensor checkpoint_each(torch::nn::Sequential& blocks, torch::Tensor x);

}  // namespace autotrain
