#include "base/full_disk.h"

#include <atomic>
#include <chrono>
#include <thread>

#include "autotrain/log.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "base/units.h"

namespace autotrain {
namespace {

constexpr double kPollSeconds = 0.2;
constexpr double kSecondsBetweenWords = 60;

std::atomic<double> most_seconds{0};

}  // namespace

FullDiskScope::FullDiskScope(double seconds) : before_(most_seconds.exchange(seconds)) {}

FullDiskScope::~FullDiskScope() {
  most_seconds = before_;
}

bool WaitForRoom::after(const NoRoom& failure) {
  const bool first = !since_;
  if (first) since_.emplace();
  const double left = most_seconds - since_->seconds();
  if (pending_interrupt() == Interrupt::kStop) return false;
  if (left <= 0) return most_seconds = 0, false;
  if (first || said_.seconds() >= kSecondsBetweenWords) {
    log::warn("files", cat("waiting for room on the disk, ", format_seconds(left),
                           " at most: ", failure.where(), ": ", failure.problem()));
    said_.restart();
  }
  std::this_thread::sleep_for(std::chrono::duration<double>(kPollSeconds));
  return true;
}

void WaitForRoom::end() const {
  if (!since_) return;
  log::info("files", cat("the disk has room again after ", format_seconds(since_->seconds())));
}

}  // namespace autotrain
