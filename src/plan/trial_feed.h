#pragma once

#include <optional>

#include "plan/trial_batches.h"

namespace autotrain {

/// Gives a trial its batches: from the run's own loader, beside as many prepared ahead as there ever are; or,
/// where that costs nothing of the budget, made when they are needed.
class TrialFeed {
 public:
  /// What the loader gives.
  TrialFeed(const Dataset& dataset, const Stream& stream, PieceSource pieces, Loader::Options loading) {
    loader_.emplace(dataset, stream, std::move(pieces), std::move(loading));
  }

  /// What these give, which must outlive the feed.
  explicit TrialFeed(TrialBatches& batches) : batches_(&batches) {}

  /// The batch of this piece, which must be the loader's next one.
  Batch next(const Piece& piece);

  /// In the run, batches prepared ahead stand beside the peak.
  void wait_until_full() {
    if (loader_) loader_->wait_until_full();
  }

  /// Whether the time for a batch is part of what an update takes here.
  bool loads_as_the_run() const { return loader_.has_value(); }

 private:
  std::optional<Loader> loader_;
  TrialBatches* batches_ = nullptr;
};

}  // namespace autotrain
