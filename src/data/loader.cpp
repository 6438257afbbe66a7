#include "data/loader.h"

#include <ATen/Parallel.h>
#include <omp.h>

#include "base/clock.h"
#include "device/memory_phase.h"

namespace autotrain {

PieceSource endless_windows(WindowCut cut, int64_t position) {
  std::deque<Piece> pending;
  return [cut, position, pending]() mutable -> std::optional<Piece> {
    if (pending.empty()) {
      for (const Piece& piece : cut.cut(position)) pending.push_back(piece);
      position += cut.window_samples;
    }
    const Piece piece = pending.front();
    pending.pop_front();
    return piece;
  };
}

PieceSource one_pass(int64_t size, int64_t micro_batch) {
  return [=, done = int64_t{0}]() mutable -> std::optional<Piece> {
    if (done >= size) return std::nullopt;
    const Piece piece{done, std::min(micro_batch, size - done)};
    done += piece.samples;
    return piece;
  };
}

Loader::Loader(const Dataset& dataset, Stream stream, PieceSource pieces, Options options)
    : dataset_(dataset), stream_(stream), pieces_(std::move(pieces)), options_(options) {
  if (options_.prefetch > 0) thread_ = std::thread([this] { work(); });
}

Loader::~Loader() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Loader::work() {
  // A second team of spinning OpenMP threads on the step's cores costs up to ten-fold. Only this
  // thread's setting changes, after LibTorch has made its own.
  at::get_num_threads();
  omp_set_num_threads(1);
  for (bool more = true; more;) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stop_ || static_cast<int64_t>(ready_.size()) < options_.prefetch; });
      if (stop_) return;
    }
    Loaded loaded = load_next();
    more = loaded.batch.has_value();
    std::lock_guard lock(mutex_);
    ready_.push_back(std::move(loaded));
    changed_.notify_all();
  }
}

std::optional<Batch> Loader::next() {
  const Stopwatch waited;
  Loaded loaded;
  if (options_.prefetch == 0) {
    loaded = load_next();
  } else {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !ready_.empty(); });
    loaded = std::move(ready_.front());
    // The end and an error stay: whoever asks again gets the same answer.
    if (loaded.batch) {
      ready_.pop_front();
    } else {
      ready_.front() = loaded;
    }
    changed_.notify_all();
  }
  wait_seconds_ += waited.seconds();
  if (loaded.error) std::rethrow_exception(loaded.error);
  return std::move(loaded.batch);
}

void Loader::wait_until_full() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] {
    return static_cast<int64_t>(ready_.size()) >= options_.prefetch ||
           (!ready_.empty() && !ready_.back().batch);
  });
  if (!ready_.empty() && ready_.back().error) std::rethrow_exception(ready_.back().error);
}

Loader::Loaded Loader::load_next() {
  try {
    const std::optional<Piece> piece = pieces_();
    if (!piece) return {};
    return {load(*piece), nullptr};
  } catch (...) {
    return {std::nullopt, std::current_exception()};
  }
}

Batch Loader::load(const Piece& piece) const {
  const PhaseScope phase(MemoryPhase::kData);
  const torch::NoGradGuard no_gradients;
  const Stream::Draw drawn = stream_.draw(piece);
  Batch batch = dataset_.get(drawn.indices, SampleRandom(stream_.seed(), drawn.indices, drawn.epochs));
  if (!options_.pin) return batch;
  return {batch.inputs.pin_memory(), batch.targets.defined() ? batch.targets.pin_memory() : batch.targets,
          batch.samples};
}

}  // namespace autotrain
