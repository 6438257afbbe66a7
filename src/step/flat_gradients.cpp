#include "step/flat_gradients.h"

#include "base/units.h"

namespace autotrain {
namespace {

constexpr int64_t kAlignment = 16;  // elements: kernels read whole cache lines

int64_t elements_of(const std::vector<NamedTensor>& parameters, int64_t parts) {
  int64_t elements = 0;
  for (const NamedTensor& each : parameters) elements += round_up(each.tensor.numel(), kAlignment);
  return round_up(elements, kAlignment * parts);
}

// With the parameter's strides, for kernels that walk both at once; not of a part of something larger.
torch::Tensor part_like(const torch::Tensor& parameter, const torch::Tensor& flat, int64_t at) {
  return parameter.is_non_overlapping_and_dense()
             ? flat.as_strided(parameter.sizes(), parameter.strides(), at)
             : flat.narrow(0, at, parameter.numel()).view(parameter.sizes());
}

}  // namespace

FlatGradients::FlatGradients(const std::vector<NamedTensor>& parameters, int64_t lanes, int64_t parts)
    : lanes_(lanes, {elements_of(parameters, parts)},
             parameters.empty() ? torch::TensorOptions() : parameters[0].tensor.options()) {
  parts_.reserve(parameters.size());
  int64_t at = 0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const torch::Tensor& parameter = parameters[i].tensor;
    Part& part = parts_.emplace_back(parameter);
    for (const torch::Tensor& buffer : lanes_.buffers())
      part.gradients.push_back(part_like(parameter, buffer, at));
    part.hook = parameter.register_hook([this, i](const torch::Tensor& gradient_of_pass) {
      if (gradient_of_pass.defined()) parts_[i].reached = true;
    });
    at += round_up(parameter.numel(), kAlignment);
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
