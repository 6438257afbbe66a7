#include "step/update_scalars.h"

#include <ATen/ops/eq.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ne.h>

#include <vector>

namespace autotrain {
namespace {

torch::Tensor empty_scalar(const torch::Tensor& like, torch::ScalarType type) {
  return torch::empty({}, like.options().dtype(type));
}

torch::Tensor grad_scale_of(const torch::Tensor& divisor, const torch::Tensor& norm,
                            const std::optional<double>& clip_norm) {
  if (!clip_norm) return divisor.to(torch::kFloat32);
  const torch::Tensor excess = ((norm + 1e-6) / *clip_norm).clamp_min_(1);
  torch::Tensor scale = empty_scalar(divisor, torch::kFloat32);
  return at::mul_out(scale, divisor, excess);
}

}  // namespace

GradientScale::GradientScale(const torch::Tensor& loss_scale, double loss_factor,
                             const torch::Tensor& weight_sum)
    : scale(loss_scale.to(torch::kFloat64)), of_sum(scale * loss_factor), of_mean(of_sum * weight_sum) {}

UpdateScalars update_scalars(const WindowFigures& window, const GradientScale& scale,
                             const std::optional<double>& clip_norm, bool force_skip) {
  const torch::NoGradGuard no_gradients;
  const torch::Tensor of_square = scale.of_sum.square();
  const torch::Tensor fractions =
      at::stack({window.loss_sum, window.scaled_norm, window.first_norms[0], window.first_preconditioned,
                 window.weight_sum, scale.of_mean, of_square, of_square});
  const torch::Tensor quotients_of_sums = fractions.narrow(0, 0, 4) / fractions.narrow(0, 4, 4);
  const std::vector<torch::Tensor> quotients = quotients_of_sums.unbind();
  const torch::Tensor &loss = quotients[0], &norm = quotients[1];

  // 0 where loss and norm are finite, else not a number. Where the weights' sum is 0, they are not finite.
  const torch::Tensor both = quotients_of_sums.narrow(0, 0, 2);
  torch::Tensor nought = (both - both).sum();
  if (window.buffers_nought.defined()) nought = nought + window.buffers_nought;
  torch::Tensor sound = empty_scalar(norm, torch::kFloat64), found_inf = empty_scalar(norm, torch::kFloat32);
  at::eq_out(sound, nought, 0);
  at::ne_out(found_inf, nought, 0);

  std::vector<torch::Tensor> figures = {sound,
                                        loss,
                                        norm,
                                        scale.scale,
                                        window.weight_sum,
                                        quotients[2],
                                        window.first_norms[1],
                                        window.first_norms[2],
                                        window.own_norm.defined() ? window.own_norm : norm};
  if (window.preconditioned.defined()) {
    figures.push_back(quotients[3]);
    figures.push_back(window.preconditioned);
  }
  const torch::Tensor skipped = force_skip ? torch::ones_like(found_inf) : found_inf;
  return {.figures = at::stack(figures),
          .grad_scale = grad_scale_of(scale.of_mean, norm, clip_norm),
          .found_inf = found_inf,
          .skipped = skipped,
          .applies = skipped.logical_not()};
}

}  // namespace autotrain
