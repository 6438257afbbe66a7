#include "plan/trial_batches.h"

#include <algorithm>
#include <deque>
#include <iterator>

#include "base/units.h"
#include "data/cost_order.h"
#include "data/join.h"

namespace autotrain {
namespace {

// So that threads that are slower than others have less to do.
constexpr int64_t kPartsOfAThread = 4;

PieceSource each_once(std::deque<Piece> pieces) {
  return [pieces = std::move(pieces)]() mutable -> std::optional<Piece> {
    if (pieces.empty()) return std::nullopt;
    Piece piece = std::move(pieces.front());
    pieces.pop_front();
    return piece;
  };
}

// Pinning takes longer than the copy that it would speed up.
Loader::Options unpinned(Loader::Options loading) {
  loading.pin = false;
  loading.prefetch_bytes = 0;
  return loading;
}

}  // namespace

TrialBatches::TrialBatches(const Dataset& dataset, Stream stream, Loader::Options loading, int64_t keep_bytes)
    : dataset_(dataset),
      stream_(stream),
      loading_(unpinned(std::move(loading))),
      keep_bytes_(keep_bytes),
      joins_(!has_costs(dataset)) {}

Batch TrialBatches::get(const Piece& piece) {
  const auto known = std::ranges::find(batches_, piece, &std::pair<Piece, Batch>::first);
  if (known != batches_.end()) return known->second;
  Batch batch = make(piece);
  if (held_bytes() + bytes_of(batch) > keep_bytes_) parts_.clear();
  if (held_bytes() + bytes_of(batch) <= keep_bytes_) batches_.emplace_back(piece, batch);
  return batch;
}

Batch TrialBatches::make(const Piece& piece) {
  const int64_t begin = piece.positions.front();
  if (joins_ && piece == consecutive(begin, piece.samples())) {
    if (std::optional<Batch> whole = join(begin, begin + piece.samples())) return *std::move(whole);
    joins_ = false;
    parts_.clear();
  }
  Loader::Options alone = loading_;
  alone.workers = alone.prefetch = 0;
  return *Loader(dataset_, stream_, each_once({piece}), std::move(alone)).next();
}

// Nothing where the parts do not fit together.
std::optional<Batch> TrialBatches::join(int64_t begin, int64_t end) {
  make_missing(begin, end);
  std::vector<Batch> rows;
  for (int64_t at = begin; at < end;) {
    const auto part = part_at(at);
    const int64_t skipped = at - part->first;
    const int64_t count = std::min(end - at, part->second.samples - skipped);
    rows.push_back(rows_of(part->second, skipped, count));
    at += count;
  }
  return joined(rows);
}

void TrialBatches::make_missing(int64_t begin, int64_t end) {
  const int64_t threads = std::max<int64_t>(1, loading_.workers);
  const int64_t most = ceil_div(end - begin, kPartsOfAThread * threads);
  std::deque<Piece> missing;
  for (int64_t at = begin; at < end;) {
    if (const auto part = part_at(at); part != parts_.end()) {
      at = part->first + part->second.samples;
      continue;
    }
    const auto next = parts_.upper_bound(at);
    const int64_t limit = next == parts_.end() ? end : std::min(end, next->first);
    missing.push_back(consecutive(at, std::min(most, limit - at)));
    at += missing.back().samples();
  }
  if (missing.empty()) return;
  Loader::Options options = loading_;
  options.prefetch = std::ssize(missing);
  options.workers = std::min(options.workers, options.prefetch);
  Loader loader(dataset_, stream_, each_once(missing), std::move(options));
  for (const Piece& piece : missing) parts_.emplace(piece.positions.front(), *loader.next());
}

// The part that holds the sample at this position of the stream; the end where there is none.
TrialBatches::Parts::const_iterator TrialBatches::part_at(int64_t position) const {
  const auto behind = parts_.upper_bound(position);
  if (behind == parts_.begin()) return parts_.end();
  const auto part = std::prev(behind);
  return position < part->first + part->second.samples ? part : parts_.end();
}

int64_t TrialBatches::held_bytes() const {
  int64_t bytes = 0;
  for (const auto& [position, part] : parts_) bytes += bytes_of(part);
  for (const auto& [piece, batch] : batches_) bytes += bytes_of(batch);
  return bytes;
}

}  // namespace autotrain
