#include "plan/trial_feed.h"

#include "autotrain/error.h"

namespace autotrain {

Batch TrialFeed::next(const Piece& piece) {
  std::optional<Batch> batch = loader_ ? loader_->next() : batches_->get(piece);
  check_invariant(batch && batch->samples == piece.samples(), "a trial gets the pieces it asked for");
  return *std::move(batch);
}

}  // namespace autotrain
