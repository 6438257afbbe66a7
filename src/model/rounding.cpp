#include "model/rounding.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace autotrain {
namespace {

constexpr double kLargestInt8 = 127, kLargestInt4 = 7;
constexpr int64_t kInt4Zero = 8;

// Where all is zero, or too small for a scale to be a number, any scale does.
torch::Tensor scale_for(const torch::Tensor& largest, double steps) {
  const torch::Tensor scale = largest / steps;
  return at::where(scale.eq(0), at::ones_like(scale), scale);
}

torch::Tensor rounded(const torch::Tensor& weight, const torch::Tensor& scale, double most) {
  return (weight / scale.unsqueeze(-1)).round().clamp(-most, most);
}

// The weight as [out, groups, group], filled up with zeros.
torch::Tensor in_groups(const torch::Tensor& weight, int64_t group) {
  const torch::Tensor flat = weight.reshape({weight.size(0), -1});
  const int64_t groups = (flat.size(1) + group - 1) / group;
  return at::constant_pad_nd(flat, {0, groups * group - flat.size(1)}).view({weight.size(0), groups, group});
}

}  // namespace

Int8Weight to_int8(const torch::Tensor& weight) {
  const torch::Tensor flat = weight.reshape({weight.size(0), -1});
  const torch::Tensor scale = scale_for(flat.abs().amax(1), kLargestInt8);
  return {rounded(flat, scale, kLargestInt8).to(torch::kInt8).view(weight.sizes()), scale};
}

torch::Tensor from_int8(const Int8Weight& stored) {
  const torch::Tensor flat = stored.values.reshape({stored.scale.numel(), -1}).to(torch::kFloat32);
  return (flat * stored.scale.reshape({-1, 1})).view(stored.values.sizes());
}

Int4Weight to_int4(const torch::Tensor& weight, int64_t group) {
  // An output with fewer inputs, as in depthwise convolutions, is one group, which is not filled up further.
  const int64_t inputs = weight.numel() / weight.size(0);
  group = std::min(group, inputs + inputs % 2);
  const torch::Tensor grouped = in_groups(weight, group);
  const torch::Tensor scale = scale_for(grouped.abs().amax(2), kLargestInt4);
  const torch::Tensor values = (rounded(grouped, scale, kLargestInt4) + kInt4Zero).to(torch::kUInt8);
  const torch::Tensor pairs = values.view({values.size(0), values.size(1), group / 2, 2});
  return {pairs.select(3, 0) + 16 * pairs.select(3, 1), scale, weight.sizes().vec()};
}

torch::Tensor int4_values(const Int4Weight& stored) {
  const torch::Tensor low = stored.values.bitwise_and(15), high = stored.values.bitwise_right_shift(4);
  return at::stack({low, high}, 3).flatten(1);
}

torch::Tensor from_int4(const Int4Weight& stored) {
  const int64_t out = stored.scale.size(0), groups = stored.scale.size(1);
  const torch::Tensor values = int4_values(stored).to(torch::kFloat32).sub(kInt4Zero).view({out, groups, -1});
  const int64_t inputs = c10::multiply_integers(stored.shape) / out;
  const torch::Tensor filled = (values * stored.scale.unsqueeze(2)).flatten(1);
  return filled.narrow(1, 0, inputs).reshape(stored.shape).contiguous();
}

bool has_groups_of_four(c10::IntArrayRef shape) {
  return shape.size() >= 2 && shape[1] % 4 == 0;
}

SparseWeight to_sparse(const torch::Tensor& weight) {
  const torch::Tensor fours = weight.movedim(1, -1).reshape({weight.size(0), -1, 4});
  const torch::Tensor largest = std::get<1>(fours.abs().topk(2, -1));
  const torch::Tensor places = std::get<0>(largest.sort(-1));
  return {fours.gather(2, places), (places.select(2, 0) + 4 * places.select(2, 1)).to(torch::kUInt8),
          weight.sizes().vec()};
}

torch::Tensor from_sparse(const SparseWeight& stored) {
  const torch::Tensor both = stored.places.to(torch::kInt64);
  const torch::Tensor places = at::stack({both.remainder(4), both.div(4, "floor")}, 2);
  torch::Tensor fours = at::zeros({both.size(0), both.size(1), 4}, stored.values.options());
  fours.scatter_(2, places, stored.values);
  std::vector<int64_t> inputs_last(stored.shape);
  inputs_last.erase(inputs_last.begin() + 1);
  inputs_last.push_back(stored.shape[1]);
  return fours.view(inputs_last).movedim(-1, 1).contiguous();
}

torch::Tensor to_bits(const torch::Tensor& mask) {
  const torch::Tensor places = at::arange(8, torch::kInt64);
  const torch::Tensor eights = in_groups(mask.to(torch::kInt64), 8);
  return eights.bitwise_left_shift(places).sum(2).to(torch::kUInt8);
}

torch::Tensor from_bits(const torch::Tensor& bits, c10::IntArrayRef shape) {
  const torch::Tensor places = at::arange(8, torch::kInt64);
  const torch::Tensor ones =
      bits.to(torch::kInt64).unsqueeze(2).bitwise_right_shift(places).bitwise_and(1).flatten(1);
  const int64_t inputs = c10::multiply_integers(shape.slice(1));
  return ones.narrow(1, 0, inputs).reshape(shape).to(torch::kBool);
}

}  // namespace autotrain
