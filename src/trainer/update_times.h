#pragma once

#include <map>
#include <memory>
#include <string>

#include "data/loader.h"
#include "device/timeline.h"
#include "report/trace_file.h"
#include "trainer/session.h"

namespace autotrain {

/// Where the time of updates goes: into the run's totals by activity, and into the trace if one was asked
/// for.
class UpdateTimes {
 public:
  explicit UpdateTimes(const Session& session);

  /// What one update took.
  struct Spent {
    double seconds = 0;  ///< since the previous update was done
    std::map<std::string, double> by_activity = {};
  };

  /// Counts an update that was done at `finished`. Precondition: its figures were read.
  Spent count(Timeline::Stretch& stretch, double finished);

  /// The time until now is none of training: an evaluation or a checkpoint took it.
  void leave_out_until_now() { last_finished_ = steady_seconds(); }

  /// Has the loader's threads add their work to the trace.
  void follow(Loader::Options& options) const;

  /// Writes the trace of a run that ends before the last update of it.
  void write_trace();

 private:
  RunState& state_;
  std::unique_ptr<TraceFile> trace_;  // null: none was asked for
  double last_finished_;              // when the previous update was done
};

}  // namespace autotrain
