#pragma once

namespace autotrain {

/// Whose memory is what a thread allocates: while trainers live, a run's if the thread works for one, else
/// the program's, which is in no run's budget. Threads that a run's own threads start work for it too.
bool works_for_run();

/// Whether a trainer lives in this process.
bool run_lives();

/// A trainer, from its beginning to its end.
class LivingRun {
 public:
  LivingRun();
  ~LivingRun();
  LivingRun(const LivingRun&) = delete;
  LivingRun& operator=(const LivingRun&) = delete;
};

/// Whether the calling thread works for a run, until the scope ends. Scopes nest.
class ThreadWork {
 public:
  explicit ThreadWork(bool for_run);
  ~ThreadWork();
  ThreadWork(const ThreadWork&) = delete;
  ThreadWork& operator=(const ThreadWork&) = delete;

 private:
  bool before_;
};

}  // namespace autotrain
