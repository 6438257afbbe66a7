#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "autotrain/data.h"
#include "base/small_thread.h"
#include "data/stream.h"

namespace autotrain {

/// Gives the next piece to load; nothing at the end.
using PieceSource = std::function<std::optional<Piece>()>;

/// Every window of a run from `position` on, sorted by cost, then cut by `cut`; without end.
PieceSource endless_windows(const Dataset& dataset, const Stream& stream, WindowCut cut, int64_t position);

/// Every sample once, those that cost most first, in pieces of `micro_batch`. For a stream that does not
/// shuffle.
PieceSource one_pass(const Dataset& dataset, int64_t micro_batch);

/// These pieces, over and over.
PieceSource repeated(std::vector<Piece> pieces);

struct LoaderOptions {
  int64_t workers = 1;         ///< threads that load; 0: the calling thread loads
  int64_t prefetch = 2;        ///< batches ahead of the step at most, those in the making included
  int64_t prefetch_bytes = 0;  ///< and bytes of them, but always one batch; 0: no bound
  bool pin = false;            ///< stage in pinned memory, for asynchronous copies to a GPU
  bool channels_last = false;  ///< inputs of four dimensions come with all channels of a pixel together

  /// Told after each batch who made it and when, in `steady_seconds`; from the thread that made it.
  std::function<void(int64_t worker, double start, double end, int64_t samples)> on_loaded = {};
};

/// Loads pieces ahead of the step in threads of its own. Batches arrive in the order of the pieces, and
/// their content depends on neither the number of workers nor how far they are ahead. What a data set makes
/// on a device is made by the calling thread, when it is asked for: ahead of its use it would take memory
/// there.
class Loader {
 public:
  using Options = LoaderOptions;

  /// `dataset` must outlive the loader. @param pieces is called by one thread at a time;
  /// what it throws takes the place of the next batch.
  Loader(const Dataset& dataset, Stream stream, PieceSource pieces, Options options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// The next batch, on the CPU unless the data set makes it on a device; nothing after the last one.
  /// Rethrows what the data set threw, in the place of the batch that failed; what is no Error of ours
  /// becomes one that names the sample.
  std::optional<Batch> next();

  /// Waits until as much is prepared ahead as ever will be, so that memory is at its fullest.
  void wait_until_full();

  /// Threads that load from now on, 1 to `prefetch`; a loader without threads stays without.
  void set_workers(int64_t workers);

 private:
  // One batch, from when it is begun.
  struct Slot {
    int64_t samples = 0;
    bool ready = false;
    std::optional<Batch> batch = {};
    std::exception_ptr error = {};
  };
  using Lock = std::unique_lock<std::mutex>;

  void work(int64_t worker);
  bool may_start() const;
  void find_upcoming();
  void load_upcoming(Lock& lock, int64_t worker);
  Batch load(const Piece& piece) const;
  Batch staged(Batch batch) const;

  const Dataset& dataset_;
  const Stream stream_;
  const PieceSource pieces_;
  const Options options_;

  std::mutex mutex_;
  std::condition_variable room_;   // for workers: there may be something to begin
  std::condition_variable ready_;  // for `next`: there may be something to take
  std::deque<Slot> ahead_;         // in the order of the pieces
  std::optional<Piece> upcoming_;  // begun next; nothing at the end and after an error
  int64_t sample_bytes_ = 0;       // of the largest so far
  int64_t workers_ = 0;
  bool stop_ = false;
  std::vector<SmallThread> threads_;
};

}  // namespace autotrain
