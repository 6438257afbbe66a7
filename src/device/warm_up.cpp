#include "device/warm_up.h"

#include <c10/core/InferenceMode.h>

#include <functional>

#include "base/text.h"
#include "device/failure.h"

namespace autotrain {
namespace {

struct Pass {
  std::string name;
  std::function<void()> run;
};

// Passes of small tensors, from the warm-up's own generator.
class GpuPasses {
 public:
  explicit GpuPasses(const GpuWarmUp& how) : how_(how) {}

  std::vector<Pass> all() {
    std::vector<Pass> passes = {{"normalisation and losses", [this] { normalise(); }},
                                {"optimizer", [this] { update(); }}};
    for (const torch::ScalarType type : how_.products) {
      const std::string of = cat(" in ", c10::toString(type));
      passes.push_back({"products" + of, [this, type] { multiply(type); }});
      passes.push_back({"attention" + of, [this, type] { attend(type); }});
      for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast})
        passes.push_back({"convolution" + of, [this, type, format] { convolve(type, format); }});
    }
    return passes;
  }

 private:
  at::Tensor draw(at::IntArrayRef shape, torch::ScalarType type = torch::kFloat32) {
    return at::randn(shape, how_.generator, at::dtype(type).device(how_.device));
  }
  at::Tensor draw_weight(at::IntArrayRef shape, torch::ScalarType type = torch::kFloat32) {
    return draw(shape, type).requires_grad_();
  }

  // cuBLAS, cuBLASLt with its bias in the epilogue, and batches of products.
  void multiply(torch::ScalarType type) {
    const at::Tensor weight = draw_weight({256, 256}, type), bias = draw_weight({256}, type);
    const at::Tensor hidden = at::relu(at::linear(draw({128, 256}, type), weight, bias));
    const at::Tensor heads = at::matmul(hidden, weight).view({4, 32, 256});
    at::matmul(heads, heads.transpose(1, 2)).sum().backward();
  }

  void attend(torch::ScalarType type) {
    const at::Tensor query = draw_weight({2, 4, 64, 64}, type), key = draw_weight({2, 4, 64, 64}, type);
    at::scaled_dot_product_attention(query, key, key, {}, /*dropout_p=*/0, /*is_causal=*/true)
        .sum()
        .backward();
  }

  void convolve(torch::ScalarType type, at::MemoryFormat format) {
    constexpr int64_t kChannels = 16;
    const at::Tensor images = draw({8, kChannels, 16, 16}, type).contiguous(format);
    const at::Tensor kernel = draw({kChannels, kChannels, 3, 3}, type).contiguous(format).requires_grad_();
    const at::Tensor scale = draw_weight({kChannels}), shift = draw_weight({kChannels});
    const at::Tensor mean = draw({kChannels}), variance = draw({kChannels}).abs();
    const at::Tensor maps = at::conv2d(images, kernel, draw_weight({kChannels}, type), 1, 1);
    const at::Tensor normal = at::batch_norm(maps, scale, shift, mean, variance, /*training=*/true,
                                             /*momentum=*/0.1, /*eps=*/1e-5, /*cudnn_enabled=*/true);
    at::adaptive_avg_pool2d(at::max_pool2d(at::relu(normal), {2, 2}), {1, 1}).sum().backward();
  }

  void normalise() {
    constexpr int64_t kWords = 128, kWidth = 64;
    const at::Tensor words = draw({256}).mul(1000).to(torch::kInt64).remainder(kWords);
    const at::Tensor vectors = at::embedding(draw_weight({kWords, kWidth}), words);
    const at::Tensor normal = at::layer_norm(vectors, {kWidth}, draw_weight({kWidth}), draw_weight({kWidth}));
    const at::Tensor logits = at::gelu(at::matmul(normal, draw_weight({kWidth, kWords})));
    const at::Tensor losses = at::cross_entropy_loss(logits, words, {}, at::Reduction::Sum);
    (losses + at::mse_loss(logits, draw({256, kWords}), at::Reduction::Sum)).backward();
    at::topk(at::softmax(logits.detach(), 1), 5);
    at::argmax(logits, 1).eq(words).sum();
  }

  void update() {
    const std::vector<at::Tensor> weights = {draw({64, 64}), draw({64})},
                                  gradients = {draw({64, 64}), draw({64})};
    std::vector<at::Tensor> means, squares, steps;
    for (const at::Tensor& weight : weights) {
      means.push_back(at::zeros_like(weight));
      squares.push_back(at::zeros_like(weight));
      steps.push_back(at::ones({}, weight.options()));
    }
    const at::NoGradGuard no_gradients;
    at::stack(at::_foreach_norm(gradients)).norm();
    at::Tensor not_finite = at::zeros({1}, weights[0].options());
    at::_amp_foreach_non_finite_check_and_unscale_(gradients, not_finite, at::ones_like(not_finite));
    at::_foreach_mul_(gradients, 0.5);
    at::_fused_adamw_(weights, gradients, means, squares, {}, steps, /*lr=*/1e-3, /*beta1=*/0.9,
                      /*beta2=*/0.999, /*weight_decay=*/0.01, /*eps=*/1e-8, /*amsgrad=*/false,
                      /*maximize=*/false);
  }

  const GpuWarmUp& how_;
};

}  // namespace

void warm_up_cpu() {
  // Its own generator: the run's must not have moved.
  auto generator = at::make_generator<at::CPUGeneratorImpl>(0);
  const auto draw = [&](at::IntArrayRef shape) { return at::randn(shape, generator); };
  at::AutoGradMode with_gradients(true);
  const at::Tensor square = draw({512, 512});
  at::relu(square.matmul(square)).sum().item<float>();
  const at::Tensor image = draw({4, 8, 16, 16}).requires_grad_();
  const at::Tensor kernel = draw({8, 8, 3, 3});
  at::conv2d(image, kernel, {}, 1, 1).sum().backward();
}

std::vector<std::string> warm_up_gpu(const GpuWarmUp& how) {
  const c10::InferenceMode with_gradients(false);
  std::vector<std::string> failed;
  GpuPasses passes(how);
  for (const Pass& pass : passes.all()) {
    try {
      pass.run();
    } catch (const std::exception& error) {
      if (classify_failure(error) == Failure::kOutOfMemory) throw;
      failed.push_back(cat(pass.name, ": ", first_line(error)));
    }
  }
  return failed;
}

}  // namespace autotrain
