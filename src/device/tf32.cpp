#include "device/tf32.h"

#include <c10/util/Exception.h>

namespace autotrain {
namespace {

constexpr auto kGpu = at::Float32Backend::CUDA;
constexpr auto kTf32 = at::Float32Precision::TF32;

// What `ask` says; where the two interfaces disagree, which is why it throws, the opposite of the newer one.
template <class Ask>
bool asked_formerly(Ask ask, at::Float32Precision newer) {
  try {
    return ask();
  } catch (const c10::Error&) {
    return newer != kTf32;
  }
}

}  // namespace

Tf32Settings Tf32Settings::now() {
  const at::Context& context = at::globalContext();
  Tf32Settings settings;
  settings.products_ = context.float32Precision(kGpu, at::Float32Op::MATMUL);
  settings.convolutions_ = context.float32Precision(kGpu, at::Float32Op::CONV);
  settings.recurrent_ = context.float32Precision(kGpu, at::Float32Op::RNN);
  settings.products_formerly_ = asked_formerly([&] { return context.allowTF32CuBLAS(); }, settings.products_);
  settings.convolutions_formerly_ =
      asked_formerly([&] { return context.allowTF32CuDNN(); }, settings.convolutions_);
  return settings;
}

// The older interface sets the newer one too.
void Tf32Settings::put_in_force() const {
  at::Context& context = at::globalContext();
  context.setAllowTF32CuBLAS(products_formerly_);
  context.setAllowTF32CuDNN(convolutions_formerly_);
  context.setFloat32Precision(kGpu, at::Float32Op::MATMUL, products_);
  context.setFloat32Precision(kGpu, at::Float32Op::CONV, convolutions_);
  context.setFloat32Precision(kGpu, at::Float32Op::RNN, recurrent_);
}

void allow_tf32_everywhere(bool allowed) {
  at::globalContext().setAllowTF32CuBLAS(allowed);
  at::globalContext().setAllowTF32CuDNN(allowed);
}

}  // namespace autotrain
