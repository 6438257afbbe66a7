#include "data/preload.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <vector>

#include "autotrain/log.h"
#include "base/interrupt.h"
#include "base/small_thread.h"
#include "base/text.h"

namespace autotrain {
namespace {

class Visit {
 public:
  Visit(int64_t count, const PreloadWork& work, const std::function<void(int64_t)>& visit)
      : count_(count), work_(work), visit_(visit) {}

  void run() {
    std::vector<SmallThread> threads;
    try {
      for (int64_t i = 1; i < work_.threads; ++i) threads.emplace_back([this] { visit_rest(); });
    } catch (const std::exception& error) {
      log::warn("data", cat("preloading in ", threads.size() + 1, " threads: ", error.what()));
    }
    visit_rest();
    threads.clear();
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void visit_rest() {
    try {
      for (int64_t i = next_++; i < count_; i = next_++) {
        stop_if_interrupted("data", "a signal stopped preloading; training had not begun");
        visit_(i);
        work_.progress(++done_, count_);
      }
    } catch (...) {
      next_ = count_;
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
    }
  }

  const int64_t count_;
  const PreloadWork& work_;
  const std::function<void(int64_t)>& visit_;
  std::atomic<int64_t> next_ = 0, done_ = 0;
  std::mutex mutex_;
  std::exception_ptr error_;
};

}  // namespace

void visit_all(int64_t count, const PreloadWork& work, const std::function<void(int64_t)>& visit) {
  Visit(count, work, visit).run();
}

void visit_for_look(int64_t count, const LookOptions& options, const std::function<void(int64_t)>& visit) {
  std::mutex mutex;
  PreloadWork work{.threads = std::max<int64_t>(1, std::min(options.threads, count))};
  work.progress = [&](int64_t done, int64_t of) {
    const std::lock_guard lock(mutex);
    if (options.progress) options.progress(done, of);
  };
  visit_all(count, work, visit);
}

}  // namespace autotrain
