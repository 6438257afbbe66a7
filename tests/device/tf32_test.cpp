// The settings are the process's, whether it has a GPU or not.
#include "device/tf32.h"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <optional>
#include <vector>

namespace autotrain {
namespace {

constexpr auto kGpu = at::Float32Backend::CUDA;
using at::Float32Op;
using at::Float32Precision;

// What the older interface says; nothing where it throws.
std::optional<bool> formerly(const std::function<bool()>& ask) {
  try {
    return ask();
  } catch (const c10::Error&) {
    return std::nullopt;
  }
}

struct Seen {
  std::array<Float32Precision, 3> precisions = {};
  std::optional<bool> products = {}, convolutions = {};
  bool operator==(const Seen&) const = default;
};

Seen seen() {
  const at::Context& context = at::globalContext();
  return {{context.float32Precision(kGpu, Float32Op::MATMUL), context.float32Precision(kGpu, Float32Op::CONV),
           context.float32Precision(kGpu, Float32Op::RNN)},
          formerly([&] { return context.allowTF32CuBLAS(); }),
          formerly([&] { return context.allowTF32CuDNN(); })};
}

TEST(Tf32, ComesBackAsItWasWhicheverInterfaceSetIt) {
  at::Context& context = at::globalContext();
  const Tf32Settings at_first = Tf32Settings::now();
  const std::vector<std::function<void()>> ways = {
      [] {},
      [&] { context.setAllowTF32CuBLAS(true); },
      [&] { context.setAllowTF32CuDNN(false); },
      [&] { context.setFloat32Precision(kGpu, Float32Op::MATMUL, Float32Precision::TF32); },
      [&] { context.setFloat32Precision(kGpu, Float32Op::CONV, Float32Precision::IEEE); },
      [&] { context.setFloat32Precision(kGpu, Float32Op::RNN, Float32Precision::IEEE); },
  };
  for (size_t i = 0; i < ways.size(); ++i) {
    ways[i]();
    const Seen before = seen();
    const Tf32Settings settings = Tf32Settings::now();
    for (const bool allowed : {true, false}) {
      allow_tf32_everywhere(allowed);
      const Seen now = seen();
      for (const Float32Precision precision : now.precisions)
        EXPECT_EQ(precision == Float32Precision::TF32, allowed) << "way " << i;
      EXPECT_EQ(now.products, allowed);
      EXPECT_EQ(now.convolutions, allowed);
    }
    settings.put_in_force();
    EXPECT_EQ(seen(), before) << "way " << i;
    at_first.put_in_force();
  }
}

}  // namespace
}  // namespace autotrain
