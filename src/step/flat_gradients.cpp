#include "step/flat_gradients.h"

#include <algorithm>

namespace autotrain {
namespace {

torch::TensorOptions options_of(const std::vector<NamedTensor>& parameters) {
  return parameters.empty() ? torch::TensorOptions() : parameters[0].tensor.options();
}

}  // namespace

FlatGradients::FlatGradients(FlatLayout layout, int64_t lanes)
    : layout_(std::move(layout)), lanes_(lanes, {layout_.elements()}, options_of(layout_.tensors())) {
  parts_.reserve(layout_.tensors().size());
  for (size_t i = 0; i < layout_.tensors().size(); ++i) {
    Part& part = parts_.emplace_back(layout_.tensors()[i].tensor);
    for (const torch::Tensor& buffer : lanes_.buffers()) part.gradients.push_back(layout_.view(buffer, i));
    const bool learns = part.parameter.requires_grad();  // a task may have frozen it for some updates
    part.parameter.requires_grad_();
    part.hook = part.parameter.register_hook([this, i](const torch::Tensor& gradient_of_pass) {
      if (gradient_of_pass.defined()) parts_[i].reached = true;
    });
    part.parameter.requires_grad_(learns);
  }
}

FlatGradients::~FlatGradients() {
  for (Part& part : parts_) {
    part.parameter.remove_hook(part.hook);
    part.parameter.mutable_grad().reset();
  }
}

void FlatGradients::attach() {
  for (Part& part : parts_) part.parameter.mutable_grad() = part.gradients[lanes_.current()];
}

void FlatGradients::open() {
  lanes_.open();
  attach();
  forget_reached();
}

void FlatGradients::forget_reached() {
  for (Part& part : parts_) part.reached = false;
}

void FlatGradients::end_lane() {
  lanes_.next();
  attach();
}

std::string FlatGradients::reached() const {
  std::string digits;
  for (const Part& part : parts_) digits += part.reached ? '1' : '0';
  return digits;
}

void FlatGradients::add_reached(const std::string& elsewhere) {
  for (size_t i = 0; i < std::min(elsewhere.size(), parts_.size()); ++i)
    parts_[i].reached = parts_[i].reached || elsewhere[i] == '1';
}

void FlatGradients::leave_reached() {
  for (Part& part : parts_) {
    if (!part.reached) part.parameter.mutable_grad().reset();
  }
}

}  // namespace autotrain
