#include "base/small_thread.h"

#include <memory>
#include <system_error>
#include <utility>

namespace autotrain {
namespace {

void* run(void* work) {
  const std::unique_ptr<std::function<void()>> owned(static_cast<std::function<void()>*>(work));
  (*owned)();
  return nullptr;
}

}  // namespace

SmallThread::SmallThread(std::function<void()> work) {
  auto owned = std::make_unique<std::function<void()>>(std::move(work));
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, kStackBytes);
  const int error = ::pthread_create(&thread_, &attributes, &run, owned.get());
  ::pthread_attr_destroy(&attributes);
  if (error != 0) throw std::system_error(error, std::generic_category(), "starting a thread");
  (void)owned.release();  // the thread's own now
  running_ = true;
}

SmallThread::SmallThread(SmallThread&& other) noexcept
    : thread_(other.thread_), running_(std::exchange(other.running_, false)) {}

SmallThread& SmallThread::operator=(SmallThread&& other) noexcept {
  join();
  thread_ = other.thread_;
  running_ = std::exchange(other.running_, false);
  return *this;
}

void SmallThread::join() {
  if (std::exchange(running_, false)) ::pthread_join(thread_, nullptr);
}

}  // namespace autotrain
