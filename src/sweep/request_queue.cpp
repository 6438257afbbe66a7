#include "sweep/request_queue.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <new>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/interrupt.h"

namespace autotrain {
namespace {

static_assert(std::atomic<double>::is_always_lock_free, "processes share no other locks");

constexpr double kLongestSleep = 0.05;        // between looks at whether the service has ended
constexpr double kReadySleepSeconds = 0.001;  // between looks at whether all are ready
constexpr const char* kStopped = "a signal stopped it; finished points are kept";

void sleep_for(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

}  // namespace

struct RequestQueue::Shared {
  pthread_mutex_t door;            // whoever waits for a batch holds it
  size_t next = 0;                 // request; of who holds the door
  std::atomic<int64_t> ready = 0;  // servers
  std::atomic<double> start = 0;   // in steady_seconds, which all processes share; 0: not yet
  std::atomic<bool> abandoned = false;
  std::atomic<size_t> kept = 0;  // batches
  std::atomic<int64_t> peak_bytes = 0;
};

// A server that dies while it holds the door leaves it to the next one.
class RequestQueue::Door {
 public:
  explicit Door(pthread_mutex_t& mutex) : mutex_(mutex) {
    if (::pthread_mutex_lock(&mutex_) == EOWNERDEAD) ::pthread_mutex_consistent(&mutex_);
  }
  ~Door() { ::pthread_mutex_unlock(&mutex_); }
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

 private:
  pthread_mutex_t& mutex_;
};

RequestQueue::RequestQueue(std::vector<double> arrivals, Batching batching, int64_t servers,
                           double patience_seconds)
    : arrivals_(std::move(arrivals)),
      batching_(batching),
      servers_(servers),
      patience_seconds_(patience_seconds),
      bytes_(sizeof(Shared) + arrivals_.size() * sizeof(ServedBatch)) {
  void* const memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  shared_ = new (memory) Shared;
  pthread_mutexattr_t attributes;
  ::pthread_mutexattr_init(&attributes);
  ::pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  ::pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  ::pthread_mutex_init(&shared_->door, &attributes);
  ::pthread_mutexattr_destroy(&attributes);
}

RequestQueue::~RequestQueue() {
  ::munmap(shared_, bytes_);
}

void RequestQueue::start() {
  if (++shared_->ready == servers_) shared_->start = steady_seconds();
  while (shared_->start == 0 && !shared_->abandoned) {
    stop_if_interrupted("sweep", kStopped);
    sleep_for(kReadySleepSeconds);
  }
}

double RequestQueue::now() const {
  return steady_seconds() - shared_->start;
}

std::optional<ServedBatch> RequestQueue::take() {
  const Door door(shared_->door);
  const size_t first = shared_->next;
  if (first == arrivals_.size()) return std::nullopt;
  sleep_until(batch_start(batching_, arrivals_, first, now()));
  const double taken = now();
  const bool hopeless = taken > 2 * arrivals_.back() + batching_.window_seconds + patience_seconds_;
  if (shared_->abandoned || hopeless) return std::nullopt;
  const size_t samples = batch_size(batching_, arrivals_, first, taken);
  shared_->next += samples;
  return ServedBatch{.first = first, .samples = samples, .taken = taken};
}

void RequestQueue::sleep_until(double seconds) const {
  for (double left = seconds - now(); left > 0; left = seconds - now()) {
    stop_if_interrupted("sweep", kStopped);
    if (shared_->abandoned) return;
    sleep_for(std::min(left, kLongestSleep));
  }
}

void RequestQueue::keep(const ServedBatch& batch) {
  batches()[shared_->kept++] = batch;
}

void RequestQueue::abandon() {
  shared_->abandoned = true;
}

void RequestQueue::add_peak_bytes(int64_t bytes) {
  shared_->peak_bytes += bytes;
}

int64_t RequestQueue::peak_bytes() const {
  return shared_->peak_bytes;
}

std::vector<ServedBatch> RequestQueue::served() const {
  return {batches(), batches() + shared_->kept};
}

ServedBatch* RequestQueue::batches() const {
  return reinterpret_cast<ServedBatch*>(shared_ + 1);
}

}  // namespace autotrain
