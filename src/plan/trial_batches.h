#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "data/loader.h"

namespace autotrain {

/// The batches of trials on a device whose budget main memory is no part of. There a trial needs a batch only
/// when it runs it, and has nothing to wait for but that: a batch is made at once, by all the threads that
/// load, each of which makes a part, and its samples serve for every update of the trial and for later
/// trials.
class TrialBatches {
 public:
  /// @param dataset must outlive this object. @param loading of the run; `workers` make the parts.
  /// @param keep_bytes of samples that are held at most between two uses.
  TrialBatches(const Dataset& dataset, Stream stream, Loader::Options loading, int64_t keep_bytes);

  /// The loader's batch of this piece, bit for bit, but not pinned.
  Batch get(const Piece& piece);

  /// Lets go of the batches; the samples of which they were made stay.
  void end_trial() { batches_.clear(); }

 private:
  using Parts = std::map<int64_t, Batch>;  // by the first position in the stream, none overlaps another

  Batch make(const Piece& piece);
  std::optional<Batch> join(int64_t begin, int64_t end);
  void make_missing(int64_t begin, int64_t end);
  Parts::const_iterator part_at(int64_t position) const;
  int64_t held_bytes() const;

  const Dataset& dataset_;
  const Stream stream_;
  const Loader::Options loading_;
  const int64_t keep_bytes_;
  bool joins_;  // batches are their samples one below the other
  Parts parts_;
  std::vector<std::pair<Piece, Batch>> batches_;  // of this trial
};

}  // namespace autotrain
