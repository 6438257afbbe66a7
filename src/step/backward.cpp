#include "step/backward.h"

#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>

#include "autotrain/error.h"
#include "base/text.h"
#include "device/failure.h"
#include "step/own_code.h"

namespace autotrain {
namespace {

// What PyTorch says, and what a task did.
struct Fault {
  std::string_view sign;
  const char* what;
  const char* hint;
};

constexpr std::array<Fault, 3> kFaults = {{
    {"backward through the graph a second time",
     "depends on what an earlier pass computed, whose graph is gone",
     "detach what is kept from one pass to the next: state.copy_(result.detach())"},
    {"modified by an inplace operation", "wrote to a tensor that its gradient is computed from",
     "write to parameters and buffers in begin_update or after_step, or before the forward pass reads them; "
     "to a "
     "result, make a new one: x = x + y in the place of x.add_(y)"},
    {"does not require grad", "depends on no parameter",
     "compute it from parameters, without detach() or no-grad guards"},
}};

constexpr const char* kInBackwardPass = "in its backward pass";

bool has_gradient(const NamedTensor& parameter) {
  return parameter.tensor.grad().defined();
}

// Autograd takes what a backward pass hands on for a first gradient as it is: of p[None] + q[None] two views
// of one tensor, and of an operation of a program's own whatever that keeps. What is added to the one, or
// divides it, would change the other.
void give_memory_of_its_own(torch::Tensor& gradient) {
  if (gradient.storage().use_count() > 1) gradient = gradient.clone();
}

}  // namespace

void rethrow_from_backward(const BackwardOf& of) {
  try {
    throw;
  } catch (const c10::Error& error) {
    const std::string_view text = error.what_without_backtrace();
    for (const Fault& fault : kFaults) {
      if (text.find(fault.sign) == std::string_view::npos) continue;
      throw Error(ExitCode::kBrokenContract, of.method, cat(fault.what, ": ", first_line(error)), fault.hint);
    }
    if (!of.own_code) throw;
    rethrow_from_user(of.method, kInBackwardPass);
  } catch (const std::exception&) {
    if (!of.own_code) throw;
    rethrow_from_user(of.method, kInBackwardPass);
  }
}

void go_backward(const BackwardOf& of, const torch::Tensor& outputs, const torch::Tensor& gradient,
                 const std::vector<NamedTensor>& parameters, bool keep_graph) {
  std::vector<bool> had_one;
  std::ranges::transform(parameters, std::back_inserter(had_one), has_gradient);
  try {
    torch::autograd::backward({outputs}, {gradient}, keep_graph);
  } catch (const std::exception&) {
    rethrow_from_backward(of);
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    torch::Tensor& own = parameters[i].tensor.mutable_grad();
    if (!own.defined()) continue;
    if (own.is_sparse()) own = own.to_dense();
    if (!had_one[i]) give_memory_of_its_own(own);
  }
}

}  // namespace autotrain
