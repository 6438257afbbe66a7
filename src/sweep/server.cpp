#include "sweep/server.h"

#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <omp.h>
#include <signal.h>

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "autotrain/error.h"
#include "base/child.h"
#include "base/interrupt.h"
#include "base/small_thread.h"
#include "base/text.h"

namespace autotrain {
namespace {

struct ReadBatch {
  ServedBatch times = {};
  Batch batch = {};
};

// From the thread that loads to the one that computes: one batch at a time.
class HandOver {
 public:
  // Returns when the batch is taken, or nobody will take it.
  bool put(ReadBatch batch) {
    std::unique_lock lock(mutex_);
    there_ = std::move(batch);
    changed_.notify_all();
    changed_.wait(lock, [this] { return !there_ || closed_; });
    return !closed_;
  }

  // Nothing follows.
  void end(std::exception_ptr failure) {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    failure_ = std::move(failure);
    changed_.notify_all();
  }

  std::optional<ReadBatch> take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return there_ || ended_; });
    if (failure_) std::rethrow_exception(failure_);
    changed_.notify_all();
    return std::exchange(there_, std::nullopt);
  }

  // Nobody takes any more.
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<ReadBatch> there_;
  bool ended_ = false, closed_ = false;
  std::exception_ptr failure_;
};

std::optional<ReadBatch> take_and_read(const InferenceSubject& subject, RequestQueue& queue) {
  const std::optional<ServedBatch> taken = queue.take();
  if (!taken) return std::nullopt;
  ReadBatch read{*taken,
                 subject.read(static_cast<int64_t>(taken->first), static_cast<int64_t>(taken->samples))};
  read.times.loaded = queue.now();
  return read;
}

void finish_batch(InferenceSubject& subject, RequestQueue& queue, ReadBatch read) {
  compute_batch(
      subject, read.batch, [&queue] { return queue.now(); }, read.times);
  queue.keep(read.times);
}

void read_all(const InferenceSubject& subject, RequestQueue& queue, HandOver& slot) {
  at::get_num_threads();  // makes LibTorch's own setting of this thread, before
  omp_set_num_threads(1);
  std::exception_ptr failure;
  try {
    while (auto read = take_and_read(subject, queue)) {
      if (!slot.put(std::move(*read))) break;
    }
  } catch (...) {
    failure = std::current_exception();
  }
  slot.end(std::move(failure));
}

void serve_ahead(InferenceSubject& subject, RequestQueue& queue) {
  HandOver slot;
  const SmallThread reading([&] { read_all(subject, queue, slot); });
  try {
    while (auto read = slot.take()) finish_batch(subject, queue, std::move(*read));
  } catch (...) {
    queue.abandon();
    slot.close();
    throw;
  }
}

// Of this thread; a CPU has none to wait for.
void wait_for_stream(const c10::Device& device) {
  if (!device.is_cpu()) c10::impl::VirtualGuardImpl(device.type()).getStream(device).synchronize();
}

std::optional<c10::StreamGuard> stream_of_its_own(const c10::Device& device) {
  if (device.is_cpu()) return std::nullopt;
  const c10::impl::VirtualGuardImpl streams(device.type());
  return std::optional<c10::StreamGuard>(std::in_place, streams.getStreamFromGlobalPool(device));
}

[[noreturn]] void fail_server(int result) {
  throw Error(result > 0 ? static_cast<ExitCode>(result) : ExitCode::kInternal, "a server's process",
              ended_how(result), "read what it said in the log of this measurement, in logs/");
}

}  // namespace

void compute_batch(InferenceSubject& subject, const Batch& read, const std::function<double()>& now,
                   ServedBatch& times) {
  const c10::Device device = subject.device().torch_device();
  times.begun = now();
  const Batch batch = subject.moved(read);
  wait_for_stream(device);
  times.copied = now();
  const torch::Tensor output = subject.answer(batch);
  wait_for_stream(device);
  times.computed = now();
  const torch::Tensor told = output.to(torch::kCPU, torch::kFloat32);
  times.done = now();
}

void serve(InferenceSubject& subject, RequestQueue& queue, bool load_ahead) {
  queue.start();
  if (load_ahead) return serve_ahead(subject, queue);
  while (auto read = take_and_read(subject, queue)) finish_batch(subject, queue, std::move(*read));
}

void serve_by_threads(InferenceSubject& subject, RequestQueue& queue, int64_t servers, bool load_ahead,
                      const std::function<void()>& prepare) {
  if (servers == 1) {
    prepare();
    return serve(subject, queue, load_ahead);
  }
  std::vector<std::exception_ptr> failures(static_cast<size_t>(servers));
  const auto work = [&](std::exception_ptr& failure) {
    try {
      at::get_num_threads();  // makes LibTorch's own setting of this thread: the share
      at::autocast::set_autocast_cache_enabled(false);  // its weights may be another stream's, not ready yet
      const auto stream = stream_of_its_own(subject.device().torch_device());
      prepare();
      serve(subject, queue, load_ahead);
    } catch (...) {
      failure = std::current_exception();
      queue.abandon();
    }
  };
  {
    std::vector<std::jthread> threads;
    try {
      for (std::exception_ptr& failure : failures) threads.emplace_back([&] { work(failure); });
    } catch (...) {
      queue.abandon();
      throw;
    }
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

void serve_by_processes(RequestQueue& queue, int64_t servers, const std::function<void()>& work) {
  std::vector<std::unique_ptr<Child>> processes;
  for (int64_t i = 0; i < servers; ++i)
    processes.push_back(std::make_unique<Child>([&] { return work(), 0; }));
  constexpr double kTickSeconds = 0.02;
  bool told = false;
  for (bool running = true; running;) {
    running = false;
    const bool stop = !told && pending_interrupt() == Interrupt::kStop;
    for (const auto& process : processes) {
      if (stop) process->send(SIGTERM);
      if (!process->ended_within(kTickSeconds)) {
        running = true;
      } else if (process->wait() != 0) {
        queue.abandon();
      }
    }
    told = told || stop;
  }
  for (const auto& process : processes) {
    if (process->wait() != 0) fail_server(process->wait());
  }
}

}  // namespace autotrain
