#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>

#include <array>
#include <cstdint>
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

/// Follows what the device of a run does. On a GPU the marks are events in the stream of its work, so they
/// cost the host no wait and measure the device: time counts as waiting for data when the device had nothing
/// to do, not when the host waited. Use from one thread.
class Timeline {
 public:
  explicit Timeline(c10::Device device);
  ~Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  /// The device does `activity` from here on, once it has done what was asked of it before.
  void enter(Activity activity);

  /// What was done between two cuts. Reading it is for when the work is known to be over: until then `read`
  /// waits for the device.
  class Stretch {
   public:
    std::vector<ActivitySpan> read() const;

   private:
    friend class Timeline;
    struct Mark {
      Activity activity = Activity::kOther;
      double host_seconds = 0;
      std::shared_ptr<c10::Event> event = {};  // null on a CPU
    };
    Mark origin_;  // seen on both clocks
    std::vector<Mark> marks_;
  };

  /// Everything since the last cut.
  Stretch cut();

 private:
  Stretch::Mark mark(Activity activity) const;

  c10::Device device_;
  Stretch::Mark origin_;
  Stretch open_;
};

}  // namespace autotrain
