#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "autotrain/data.h"
#include "data/stream.h"

namespace autotrain {

/// Gives the next piece to load; nothing at the end.
using PieceSource = std::function<std::optional<Piece>()>;

/// Every window of a run from `position` on, cut by `cut`, without end.
PieceSource endless_windows(WindowCut cut, int64_t position);

/// The samples [0, size) once, in pieces of `micro_batch`.
PieceSource one_pass(int64_t size, int64_t micro_batch);

/// Loads pieces ahead of the step in a thread of its own.
class Loader {
 public:
  struct Options {
    int64_t prefetch = 2;  ///< batches held ready; 0 loads in the calling thread
    bool pin = false;      ///< stage in pinned memory, for asynchronous copies to a GPU
  };

  /// `dataset` must outlive the loader.
  Loader(const Dataset& dataset, Stream stream, PieceSource pieces, Options options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// The next batch, on the CPU; nothing after the last one. Rethrows what the data set threw, in the
  /// place of the batch that failed.
  std::optional<Batch> next();

  /// Waits until as much is prepared ahead as ever will be, so that memory is at its fullest.
  void wait_until_full();

  /// Seconds that `next` waited, in all.
  double wait_seconds() const { return wait_seconds_; }

 private:
  struct Loaded {
    std::optional<Batch> batch;
    std::exception_ptr error;
  };

  void work();
  Loaded load_next();
  Batch load(const Piece& piece) const;

  const Dataset& dataset_;
  const Stream stream_;
  PieceSource pieces_;
  const Options options_;
  double wait_seconds_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Loaded> ready_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace autotrain
