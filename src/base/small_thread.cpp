#include "base/small_thread.h"

#include <sys/mman.h>

#include <cerrno>
#include <memory>
#include <new>
#include <utility>

#include "base/files.h"
#include "base/run_thread.h"

namespace autotrain {
namespace {

void* run(void* work) {
  const std::unique_ptr<std::function<void()>> owned(static_cast<std::function<void()>*>(work));
  (*owned)();
  return nullptr;
}

bool has_room_for(size_t bytes) {
  void* const room = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) return false;
  ::munmap(room, bytes);
  return true;
}

struct Attributes {
  Attributes() { ::pthread_attr_init(&value); }
  ~Attributes() { ::pthread_attr_destroy(&value); }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;

  size_t stack_bytes() const {
    size_t bytes = 0;
    ::pthread_attr_getstacksize(&value, &bytes);
    return bytes;
  }

  pthread_attr_t value;
};

// pthread_create says EAGAIN of memory that its stack does not get, too.
pthread_t start(const Attributes& attributes, std::function<void()> work) {
  auto owned = std::make_unique<std::function<void()>>([work = std::move(work), for_run = works_for_run()] {
    const ThreadWork as_its_maker(for_run);
    work();
  });
  pthread_t thread{};
  const int error = ::pthread_create(&thread, &attributes.value, &run, owned.get());
  if (error == EAGAIN && !has_room_for(attributes.stack_bytes())) throw std::bad_alloc();
  errno = error;
  if (error != 0) throw_io_error("thread", "starting one");
  (void)owned.release();  // the thread's own now
  return thread;
}

}  // namespace

SmallThread::SmallThread(std::function<void()> work) {
  Attributes attributes;
  ::pthread_attr_setstacksize(&attributes.value, kStackBytes);
  thread_ = start(attributes, std::move(work));
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

void start_detached_thread(std::function<void()> work) {
  ::pthread_detach(start(Attributes(), std::move(work)));
}

}  // namespace autotrain
