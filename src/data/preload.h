#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>

#include "data/look.h"

namespace autotrain {

struct PreloadWork {
  c10::Device device = c10::Device(c10::DeviceType::CPU);  ///< whose memory is to hold the samples
  int64_t threads = 1;
  std::function<void(int64_t done, int64_t all)> progress = [](int64_t, int64_t) {};  ///< from any thread
};

/// What a data set is, besides, that can hold all its samples in memory instead of making each anew.
class Preloadable {
 public:
  virtual ~Preloadable() = default;

  /// Main memory that it takes; 0: the samples are there already.
  virtual int64_t ram_bytes() const = 0;

  /// Whether it spares more than reading files: decoding images.
  virtual bool spares_decoding() const { return false; }

  /// A GPU's memory that it takes; 0: these samples are not made there.
  virtual int64_t device_bytes() const { return 0; }

  /// Holds the samples from now on. Equal requests give the same batches after as before; what cannot be
  /// read stays the error that it was, when it is asked for. Not while other threads `get`.
  virtual void preload(const PreloadWork& work) = 0;
};

/// Calls `visit(i)` for i in [0, count) from several threads; after an exception no more, and rethrows it.
/// @throws Error(kInterrupted) after a signal.
void visit_all(int64_t count, const PreloadWork& work, const std::function<void(int64_t)>& visit);

/// The same in the threads of a look, whose progress is told by one of them at a time.
void visit_for_look(int64_t count, const LookOptions& options, const std::function<void(int64_t)>& visit);

}  // namespace autotrain
