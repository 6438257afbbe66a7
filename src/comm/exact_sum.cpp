#include "comm/exact_sum.h"

#include <bit>

#include "base/units.h"

namespace autotrain {

void LaneTree::add(torch::Tensor lane) {
  nodes_.push_back({1, std::move(lane)});
  while (nodes_.size() >= 2 && nodes_[nodes_.size() - 2].lanes == nodes_.back().lanes) merge_last();
}

void LaneTree::merge_last() {
  const torch::NoGradGuard no_gradients;
  const Node right = std::move(nodes_.back());
  nodes_.pop_back();
  nodes_.back().sum.add_(right.sum);
  nodes_.back().lanes += right.lanes;
}

torch::Tensor LaneTree::take() {
  while (nodes_.size() >= 2) merge_last();
  const torch::Tensor sum = nodes_.at(0).sum;
  nodes_.clear();
  return sum;
}

namespace {

// Adds the equal parts that came of each rank, in the tree of ranks.
torch::Tensor sum_of_parts(const torch::Tensor& received, int64_t world) {
  LaneTree tree;
  for (int64_t rank = 0; rank < world; ++rank) tree.add(part_of(received, rank, world));
  return tree.take();
}

}  // namespace

bool shares_lanes(int64_t lanes, int64_t world) {
  const auto is_power = [](int64_t n) { return n >= 1 && std::has_single_bit(static_cast<uint64_t>(n)); };
  return is_power(lanes) && is_power(world) && world <= lanes;
}

ExactSum::ExactSum(Exchange& exchange, const Place& place, int64_t elements,
                   const torch::TensorOptions& options)
    : exchange_(exchange), place_(place), elements_(elements) {
  if (place.world == 1) return;
  const int64_t filled = round_up(elements, place.world);
  receive_ = torch::empty({filled}, options);
  if (filled != elements) send_ = torch::zeros({filled}, options);
}

void ExactSum::operator()(const torch::Tensor& flat) {
  if (place_.world == 1) return;
  const torch::NoGradGuard no_gradients;
  if (send_.defined()) send_.narrow(0, 0, elements_).copy_(flat);
  const torch::Tensor& whole = send_.defined() ? send_ : flat;
  exchange_.to_all(receive_, whole);
  part_of(whole, place_.rank, place_.world).copy_(sum_of_parts(receive_, place_.world));
  exchange_.spread(whole);
  if (send_.defined()) flat.copy_(send_.narrow(0, 0, elements_));
}

SmallSum::SmallSum(Exchange& exchange, const Place& place, int64_t elements,
                   const torch::TensorOptions& options)
    : exchange_(exchange),
      place_(place),
      send_(torch::zeros({place.world * elements}, options)),
      receive_(torch::zeros_like(send_)) {}

void SmallSum::operator()(const torch::Tensor& flat) {
  const torch::NoGradGuard no_gradients;
  for (int64_t rank = 0; rank < place_.world; ++rank) part_of(send_, rank, place_.world).copy_(flat);
  exchange_.to_all(receive_, send_);
  flat.copy_(sum_of_parts(receive_, place_.world));
}

}  // namespace autotrain
