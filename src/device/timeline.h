#pragma once

#include <c10/core/Device.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/enum_names.h"

namespace autotrain {

/// What the time of a run goes to.
enum class Activity : uint8_t {
  kDataWait,  ///< the device had nothing to do, because no batch was ready
  kCopy,      ///< of a batch to the device
  kForward,
  kBackward,
  kUpdate,  ///< norm, check, clipping, optimizer, scaler
  kCommunication,
  kEvaluation,
  kCheckpoint,
  kOther,
};

constexpr auto enum_names(Activity) {
  using A = Activity;
  return std::array{EnumName<A>{A::kDataWait, "data_wait"},
                    EnumName<A>{A::kCopy, "copy"},
                    EnumName<A>{A::kForward, "forward"},
                    EnumName<A>{A::kBackward, "backward"},
                    EnumName<A>{A::kUpdate, "update"},
                    EnumName<A>{A::kCommunication, "communication"},
                    EnumName<A>{A::kEvaluation, "evaluation"},
                    EnumName<A>{A::kCheckpoint, "checkpoint"},
                    EnumName<A>{A::kOther, "other"}};
}

constexpr size_t kActivities = 9;

/// One activity, from when to when on the clock of `steady_seconds`.
struct ActivitySpan {
  Activity activity = Activity::kOther;
  double start = 0;
  double end = 0;
};

/// Seconds of each activity, by its number.
using ActivitySeconds = std::array<double, kActivities>;

ActivitySeconds seconds_by_activity(const std::vector<ActivitySpan>& spans);

/// A point in the work that a device was asked to do.
class WorkPoint {
 public:
  virtual ~WorkPoint() = default;

  /// Waits until the device is there. @return when that was seen, on the clock of `steady_seconds`.
  virtual double wait() const = 0;

  /// How much later than `earlier` the device came here, by its own clock. Precondition: it did.
  virtual double seconds_since(const WorkPoint& earlier) const = 0;
};

/// Marks the point behind everything that was asked of a device so far.
using MarkWork = std::function<std::shared_ptr<const WorkPoint>()>;

/// On a GPU by events in the current stream of the thread that marks; a CPU is there at once.
MarkWork work_marks(c10::Device device);

/// Follows what the device of a run does. On a GPU the marks are events in the stream of its work, so they
/// cost the host no wait and measure the device: time counts as waiting for data when the device had nothing
/// to do, not when the host waited. Use from one thread.
class Timeline {
 public:
  explicit Timeline(c10::Device device);

  /// @param mark of a device whose work is named in no profiler.
  explicit Timeline(MarkWork mark);
  ~Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  /// The device does `activity` from here on, once it has done what was asked of it before.
  void enter(Activity activity);

  /// What was done between two cuts. Read stretches in their order.
  class Stretch {
   public:
    /// Without gaps. The device must have done the work, or this waits for it.
    std::vector<ActivitySpan> read() const;

   private:
    friend class Timeline;
    using Point = std::shared_ptr<const WorkPoint>;
    struct Mark {
      Activity activity = Activity::kOther;
      Point point = {};
    };

    // A point whose time on the clock of `steady_seconds` is known.
    struct Anchor {
      Point point = {};
      double seconds = 0;
    };
    std::vector<Mark> marks_;
    std::shared_ptr<Anchor> anchor_;  // the end of what was read last, of all stretches
  };

  /// Everything since the last cut. The next stretch begins where this one ends.
  Stretch cut();

  /// Begins anew, here and now: what was not cut is dropped. Waits for the device.
  void restart();

 private:
  const bool named_;  // in profilers
  const MarkWork mark_;
  const std::shared_ptr<Stretch::Anchor> anchor_;
  Stretch open_;
};

}  // namespace autotrain
