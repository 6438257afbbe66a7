#pragma once

#include <cstdint>
#include <map>

namespace autotrain {

/// Finds how many loader threads pay. While the step waits for data, it goes to as many threads as the
/// measured rates ask for, or tries one more; it gives up those that do not pay, and where threads slow each
/// other down or the step, it looks for the number between. Fed with what was measured, so it needs no clock.
class WorkerTuner {
 public:
  /// @param least threads ever asked for; @param most the same: nothing is tuned.
  WorkerTuner(int64_t workers, int64_t least, int64_t most) : workers_(workers), least_(least), most_(most) {}

  /// What was measured of an update.
  struct Update {
    int64_t samples = 0;
    double seconds = 0;
    double wait_seconds = 0;             ///< of these, without a batch
    double load_seconds_per_sample = 0;  ///< of one thread, of what was loaded meanwhile; 0: nothing was
  };

  /// After each update. @return the threads to load with from now on.
  int64_t after_update(const Update& update);

  int64_t workers() const { return workers_; }

 private:
  // What so many threads came to.
  struct Measured {
    double rate = 0;          // samples per second
    bool waiting = false;     // for data, for long
    double load_seconds = 0;  // of a thread, for each sample; 0: unknown
    int64_t wanted = 0;       // threads that the rates ask for
  };
  using Trials = std::map<int64_t, Measured>;  // by threads

  Measured take_measured();
  Trials::const_iterator best() const;
  int64_t next_to_try(Trials::const_iterator best) const;
  void go_to(int64_t workers);

  int64_t workers_, least_, most_;
  Trials trials_;  // since the step last had no need to wait
  bool settled_ = false;
  int64_t settling_ = 2;  // updates not counted, since batches were ready from before, or none were
  int64_t updates_ = 0, updates_with_loads_ = 0;  // of this measurement
  double samples_ = 0, seconds_ = 0, wait_seconds_ = 0, load_seconds_ = 0;
};

}  // namespace autotrain
