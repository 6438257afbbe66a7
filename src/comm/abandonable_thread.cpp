#include "comm/abandonable_thread.h"

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <utility>

#include "base/clock.h"
#include "base/small_thread.h"

namespace autotrain {

struct AbandonableThread::Shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::function<void()> call;  // to be made; empty: none
  std::exception_ptr thrown;
  bool done = false;  // the call, whose result nobody has taken yet
  bool over = false;  // nobody will call again
};

AbandonableThread::AbandonableThread() : shared_(std::make_shared<Shared>()) {
  start_detached_thread([shared = shared_] { work(shared); });
}

AbandonableThread::~AbandonableThread() {
  const std::lock_guard lock(shared_->mutex);
  shared_->over = true;
  shared_->changed.notify_all();
}

void AbandonableThread::work(const std::shared_ptr<Shared>& shared) {
  std::unique_lock lock(shared->mutex);
  for (;;) {
    shared->changed.wait(lock, [&] { return shared->call || shared->over; });
    if (!shared->call) return;
    std::function<void()> call = std::exchange(shared->call, {});
    lock.unlock();
    std::exception_ptr thrown;
    try {
      call();
    } catch (...) {
      thrown = std::current_exception();
    }
    call = {};  // gives back what it holds before its end is told
    lock.lock();
    shared->thrown = thrown;
    shared->done = true;
    shared->changed.notify_all();
  }
}

bool AbandonableThread::run(double seconds, std::function<void()> call, const std::function<void()>& look) {
  constexpr double kLook = 0.25;  // seconds between two looks
  if (abandoned_) return false;
  const Stopwatch watch;
  std::unique_lock lock(shared_->mutex);
  shared_->call = std::move(call);
  shared_->done = false;
  shared_->changed.notify_all();
  abandoned_ = true;  // until it is done
  while (!shared_->changed.wait_for(lock, std::chrono::duration<double>(look ? kLook : seconds),
                                    [&] { return shared_->done; })) {
    if (watch.seconds() >= seconds) return false;
    lock.unlock();
    look();
    lock.lock();
  }
  abandoned_ = false;
  const std::exception_ptr thrown = std::exchange(shared_->thrown, nullptr);
  lock.unlock();
  if (thrown) std::rethrow_exception(thrown);
  return true;
}

}  // namespace autotrain
