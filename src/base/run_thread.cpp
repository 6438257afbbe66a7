#include "base/run_thread.h"

#include <atomic>

namespace autotrain {
namespace {

thread_local bool for_run = false;
std::atomic<int> living{0};

}  // namespace

bool works_for_run() {
  return for_run;
}

bool run_lives() {
  return living.load(std::memory_order_relaxed) > 0;
}

LivingRun::LivingRun() {
  ++living;
}

LivingRun::~LivingRun() {
  --living;
}

ThreadWork::ThreadWork(bool now_for_run) : before_(for_run) {
  for_run = now_for_run;
}

ThreadWork::~ThreadWork() {
  for_run = before_;
}

}  // namespace autotrain
