#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "data/loader.h"
#include "device/timeline.h"
#include "loop/session.h"
#include "report/trace_file.h"

namespace autotrain {

/// The trace that the recipe asks for; null: none.
std::unique_ptr<TraceFile> trace_of(const Session& session);

/// Where the time of updates goes, by the device's clock: into the run's totals by activity, and into the
/// trace if one was asked for. What was done before it is made is no part of the first update.
class UpdateTimes {
 public:
  /// Timeline and state outlive it.
  UpdateTimes(Timeline& timeline, RunState& state, std::unique_ptr<TraceFile> trace);

  /// What one update took.
  struct Spent {
    double seconds = 0;  ///< from the end of what the device did before it to its own end; above 0
    std::map<std::string, double> by_activity = {};
  };

  /// Counts an update. Precondition: its figures were read, so that the device is done with it, or nearly.
  Spent count(const Timeline::Stretch& stretch);

  /// What was done since the last update is no part of the next one: an evaluation or a checkpoint. Its time
  /// comes into the totals with the next update, when the device is done with it.
  void leave_out();

  /// Has the loader's threads add their work to the trace.
  void follow(Loader::Options& options) const;

  /// At the run's end: counts what follows the last update, for which it waits, and writes the trace.
  void finish();

 private:
  ActivitySeconds add(const Timeline::Stretch& stretch);
  void add_left_out();

  Timeline& timeline_;
  RunState& state_;
  std::unique_ptr<TraceFile> trace_;
  std::vector<Timeline::Stretch> left_out_;  // since the last update that was counted
};

}  // namespace autotrain
