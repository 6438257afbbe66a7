#pragma once

#include <torch/types.h>

#include <utility>
#include <vector>

#include "comm/exchange.h"
#include "comm/place.h"

namespace autotrain {

/// Adds tensors that come one after the other in a fixed binary tree: ((0+1)+(2+3))+((4+5)+(6+7)), whatever
/// their number. The sum of 2^k neighbours that begin at a multiple of 2^k is a subtree, so ranks that add
/// their own lanes first, and then each other's sums in a tree, come to the same bits as one rank that adds
/// all lanes.
class LaneTree {
 public:
  /// Takes the next lane; it is added to in place.
  void add(torch::Tensor lane);

  /// The sum of all lanes, which is taken out. Precondition: there was one.
  torch::Tensor take();

 private:
  struct Node {
    int64_t lanes = 1;
    torch::Tensor sum;
  };
  void merge_last();

  std::vector<Node> nodes_;  // of falling size, at most one of each
};

/// Whether `world` ranks can share `lanes` so that each has a subtree: both powers of two, and no more ranks
/// than lanes.
bool shares_lanes(int64_t lanes, int64_t world);

/// Sums a tensor over all ranks, in place and with the same bits on every rank, backend and topology: each
/// rank adds one part of everybody's tensor in a binary tree of ranks, and spreads it. The traffic is that of
/// a ring.
///
/// A call allocates nothing, so that no rank can fail where the others wait for it.
class ExactSum {
 public:
  /// @param elements of the tensors that will be summed. Allocates as much again on their device, and once
  /// more where they are no multiple of the ranks; nothing for one rank.
  ExactSum(Exchange& exchange, const Place& place, int64_t elements, const torch::TensorOptions& options);

  /// @param flat [elements] float32, contiguous.
  void operator()(const torch::Tensor& flat);

  /// A tensor [elements, filled up to a multiple of the ranks] whose content nobody needs between two sums.
  const torch::Tensor& spare() const { return receive_; }

 private:
  Exchange& exchange_;
  Place place_;
  int64_t elements_;
  torch::Tensor send_;     // filled up to a multiple of the ranks; undefined where `elements_` is one
  torch::Tensor receive_;  // of the same size
};

/// Sums a few numbers over all ranks in one exchange, to the same bits: every rank sends all of its own to
/// all.
class SmallSum {
 public:
  /// @param elements of the tensors that will be summed. Allocates `2 · world` times as much.
  SmallSum(Exchange& exchange, const Place& place, int64_t elements, const torch::TensorOptions& options);

  /// @param flat [elements], contiguous, replaced by the sum.
  void operator()(const torch::Tensor& flat);

 private:
  Exchange& exchange_;
  Place place_;
  torch::Tensor send_, receive_;  // [world · elements]
};

}  // namespace autotrain
