#include <cmath>
#include <numbers>

#include "autotrain/error.h"
#include "autotrain/random.h"
#include "base/random.h"
#include "base/text.h"

namespace autotrain {
namespace {

constexpr int64_t kLow = 0xffffffff;  // the lower half of 64 bits

int64_t as_signed(uint64_t bits) {
  return static_cast<int64_t>(bits);
}

// LibTorch shifts signs in.
torch::Tensor shifted_right(const torch::Tensor& bits, int64_t by) {
  return at::bitwise_right_shift(bits, by).bitwise_and_((int64_t{1} << (64 - by)) - 1);
}

// `mix` of base/random.h, of each number.
torch::Tensor mixed(torch::Tensor bits) {
  bits = bits.add(as_signed(0x9e3779b97f4a7c15ULL));
  bits.bitwise_xor_(shifted_right(bits, 30)).mul_(as_signed(0xbf58476d1ce4e5b9ULL));
  bits.bitwise_xor_(shifted_right(bits, 27)).mul_(as_signed(0x94d049bb133111ebULL));
  return bits.bitwise_xor_(shifted_right(bits, 31));
}

// 64 random bits for each element, [n, elements of a row]: SplitMix64 in each row, from its sample's key on.
torch::Tensor bits_for(const torch::Tensor& like, const Batch& batch, int64_t draw) {
  if (!batch.keys.defined()) {
    throw Error(ExitCode::kBrokenContract, "autotrain::randn_like", "the batch does not name its samples",
                "override Task::names_samples to return true");
  }
  if (like.dim() == 0 || like.size(0) != batch.samples) {
    throw Error(ExitCode::kBrokenContract, "autotrain::randn_like",
                cat("wants one row for each of the batch's ", batch.samples, " samples, and was given ",
                    like.dim() == 0 ? "a scalar" : cat(like.size(0), " rows")),
                "give it a tensor whose first dimension is that of the samples");
  }
  const torch::Tensor keys = batch.keys.to(like.device());
  const int64_t rows = like.size(0), columns = rows == 0 ? 0 : like.numel() / rows;
  const torch::Tensor first = mixed(keys.bitwise_xor(as_signed(mix(static_cast<uint64_t>(draw)))));
  const torch::Tensor steps = at::arange(columns, keys.options()).mul_(as_signed(0x9e3779b97f4a7c15ULL));
  return mixed(first.unsqueeze(1) + steps.unsqueeze(0));
}

torch::ScalarType computed_in(const torch::Tensor& like) {
  return like.scalar_type() == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
}

}  // namespace

// By Box and Muller (1958), of one half of the bits each.
torch::Tensor randn_like(const torch::Tensor& like, const Batch& batch, int64_t draw) {
  const torch::NoGradGuard no_gradients;
  const torch::Tensor bits = bits_for(like, batch, draw);
  const torch::ScalarType type = computed_in(like);
  torch::Tensor radius = shifted_right(bits, 32).to(type).add_(0.5).mul_(0x1p-32).log_().mul_(-2).sqrt_();
  const torch::Tensor angle =
      at::bitwise_and(bits, kLow).to(type).mul_(2 * std::numbers::pi * 0x1p-32).cos_();
  return radius.mul_(angle).to(like.scalar_type()).view(like.sizes());
}

// A type of fewer bits would round up to 1.
torch::Tensor rand_like(const torch::Tensor& like, const Batch& batch, int64_t draw) {
  const torch::NoGradGuard no_gradients;
  const torch::Tensor bits = bits_for(like, batch, draw);
  const int64_t digits = like.scalar_type() == torch::kFloat64   ? 53
                         : like.scalar_type() == torch::kFloat32 ? 24
                         : like.scalar_type() == torch::kHalf    ? 11
                                                                 : 8;
  return shifted_right(bits, 64 - digits)
      .to(computed_in(like))
      .mul_(std::ldexp(1.0, -static_cast<int>(digits)))
      .to(like.scalar_type())
      .view(like.sizes());
}

}  // namespace autotrain
