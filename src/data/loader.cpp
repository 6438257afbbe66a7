#include "data/loader.h"

#include <ATen/Parallel.h>
#include <omp.h>

#include <algorithm>
#include <iterator>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/clock.h"
#include "base/text.h"
#include "data/channels_last.h"
#include "data/cost_order.h"
#include "data/join.h"
#include "device/failure.h"
#include "device/memory_phase.h"

namespace autotrain {

PieceSource endless_windows(const Dataset& dataset, const Stream& stream, WindowCut cut, int64_t position) {
  std::deque<Piece> pending;
  return [&dataset, stream, cut, position, pending]() mutable -> std::optional<Piece> {
    if (cut.share() == 0) return std::nullopt;
    if (pending.empty()) {
      std::ranges::move(cut.cut(window_of(dataset, stream, position, cut.window_samples)),
                        std::back_inserter(pending));
      position += cut.window_samples;
    }
    Piece piece = std::move(pending.front());
    pending.pop_front();
    return piece;
  };
}

PieceSource one_pass(const Dataset& dataset, int64_t micro_batch) {
  const int64_t size = dataset.size();
  const auto sorted = has_costs(dataset)
                          ? std::optional(window_of(dataset, Stream(0, size, /*shuffle=*/false), 0, size))
                          : std::nullopt;
  return [=, done = int64_t{0}]() mutable -> std::optional<Piece> {
    if (done >= size) return std::nullopt;
    const int64_t begin = done, samples = std::min(micro_batch, size - done);
    done += samples;
    if (!sorted) return consecutive(begin, samples);
    const auto first = sorted->positions.begin() + begin;
    return Piece{{first, first + samples}};
  };
}

PieceSource repeated(std::vector<Piece> pieces) {
  return [pieces = std::move(pieces), i = size_t{0}]() mutable {
    return std::optional(pieces[i++ % pieces.size()]);
  };
}

namespace {

// Memory that ran out, or a GPU whose earlier work failed, says nothing about a sample.
bool of_the_device(const std::exception& error) {
  return classify_failure(error) != Failure::kOther || is_of_device(error);
}

// A loader without threads, where batches take memory of the device, or are not yet what they will be.
Loader::Options options_for(const Dataset& dataset, Loader::Options options) {
  if (dataset.on_device() || dataset.changes()) options.workers = options.prefetch = 0;
  return options;
}

// Names the first sample of a batch that also fails alone.
Error error_of_sample(const Dataset& dataset, const Stream::Draw& drawn, const SampleRandom& random,
                      const std::exception& error) {
  for (size_t i = 0; i < drawn.indices.size(); ++i) {
    try {
      dataset.get(drawn.indices[i], random.alone(i));
    } catch (const std::exception& alone) {
      if (of_the_device(alone)) continue;
      return Error(ExitCode::kBadData, cat("sample ", drawn.indices[i], " of the data set"),
                   first_line(alone), "mend or remove it");
    }
  }
  return Error(ExitCode::kBadData, cat("a batch of ", drawn.indices.size(), " samples"),
               cat(first_line(error), "; each of them alone can be read"));
}

}  // namespace

Loader::Loader(const Dataset& dataset, Stream stream, PieceSource pieces, Options options)
    : dataset_(dataset),
      stream_(stream),
      pieces_(std::move(pieces)),
      options_(options_for(dataset, std::move(options))),
      upcoming_(pieces_()) {
  set_workers(options_.workers);
}

Loader::~Loader() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  room_.notify_all();
  threads_.clear();
}

void Loader::set_workers(int64_t workers) {
  if (options_.workers == 0 || options_.prefetch == 0) return;
  {
    std::lock_guard lock(mutex_);
    workers_ = std::clamp<int64_t>(workers, 1, options_.prefetch);
  }
  try {
    while (static_cast<int64_t>(threads_.size()) < workers_) {
      threads_.emplace_back([this, worker = static_cast<int64_t>(threads_.size())] { work(worker); });
    }
  } catch (const std::exception& error) {
    log::warn("data", cat("no more than ", threads_.size(), " loader threads: ", error.what()));
  }
  room_.notify_all();
}

void Loader::work(int64_t worker) {
  // A second team of spinning OpenMP threads on the step's cores costs up to ten-fold. Only this
  // thread's setting changes, after LibTorch has made its own.
  at::get_num_threads();
  omp_set_num_threads(1);
  Lock lock(mutex_);
  for (;;) {
    room_.wait(lock, [&] { return stop_ || (worker < workers_ && may_start()); });
    if (stop_) return;
    load_upcoming(lock, worker);
  }
}

// Whether another batch may be begun beside those that are ahead already.
bool Loader::may_start() const {
  if (!upcoming_ || static_cast<int64_t>(ahead_.size()) >= options_.prefetch) return false;
  if (options_.prefetch_bytes == 0 || ahead_.empty()) return true;
  int64_t samples = upcoming_->samples();
  for (const Slot& slot : ahead_) samples += slot.samples;
  // Before the first is there nobody knows what a sample takes.
  return sample_bytes_ > 0 && samples * sample_bytes_ <= options_.prefetch_bytes;
}

// A window that cannot be put in order is the error of the batch that would come next.
void Loader::find_upcoming() {
  try {
    upcoming_ = pieces_();
  } catch (...) {
    upcoming_.reset();
    ahead_.push_back(Slot{.ready = true, .error = std::current_exception()});
  }
}

// Begins the upcoming batch; the lock is open while it is made.
void Loader::load_upcoming(Lock& lock, int64_t worker) {
  const Piece piece = std::move(*upcoming_);
  Slot& slot = ahead_.emplace_back(Slot{.samples = piece.samples()});  // stays where it is until it is taken
  find_upcoming();
  lock.unlock();
  std::optional<Batch> batch;
  std::exception_ptr error;
  int64_t bytes = 0;
  const double start = steady_seconds();
  try {
    batch = load(piece);
    bytes = bytes_of(*batch);
    if (options_.on_loaded) options_.on_loaded(worker, start, steady_seconds(), piece.samples());
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  if (error) upcoming_.reset();
  if (batch) sample_bytes_ = std::max(sample_bytes_, (bytes - 1) / piece.samples() + 1);
  slot.batch = std::move(batch);
  slot.error = error;
  slot.ready = true;
  ready_.notify_all();
  room_.notify_all();
}

std::optional<Batch> Loader::next() {
  Lock lock(mutex_);
  if (threads_.empty() && ahead_.empty() && upcoming_) load_upcoming(lock, 0);
  ready_.wait(lock, [&] { return ahead_.empty() ? !upcoming_ : ahead_.front().ready; });
  if (ahead_.empty()) return std::nullopt;
  // An error stays: whoever asks again gets the same answer.
  if (ahead_.front().error) std::rethrow_exception(ahead_.front().error);
  Batch batch = std::move(*ahead_.front().batch);
  ahead_.pop_front();
  room_.notify_all();
  return batch;
}

void Loader::wait_until_full() {
  if (threads_.empty()) return;
  Lock lock(mutex_);
  ready_.wait(lock, [&] { return !may_start() && std::ranges::all_of(ahead_, &Slot::ready); });
  for (const Slot& slot : ahead_) {
    if (slot.error) std::rethrow_exception(slot.error);
  }
}

Batch Loader::load(const Piece& piece) const {
  const PhaseScope phase(MemoryPhase::kData);
  const torch::NoGradGuard no_gradients;
  const Stream::Draw drawn = stream_.draw(piece);
  const SampleRandom random(stream_.seed(), drawn.indices, drawn.epochs, piece.positions);
  try {
    return staged(dataset_.get(drawn.indices, random));
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    if (of_the_device(error)) throw;
    throw error_of_sample(dataset_, drawn, random, error);
  }
}

Batch Loader::staged(Batch batch) const {
  if (options_.channels_last) batch.inputs = channels_last(batch.inputs);
  return options_.pin ? pinned(batch) : batch;
}

}  // namespace autotrain
