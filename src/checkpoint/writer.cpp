#include "checkpoint/writer.h"

#include <chrono>
#include <memory>

#include "autotrain/log.h"
#include "base/text.h"

namespace autotrain {

void CheckpointWriter::wait() {
  if (under_way_.valid()) under_way_.get();
}

void CheckpointWriter::wait_at_most(double seconds) {
  const std::chrono::duration<double> longest(seconds);
  const bool over = under_way_.valid() && under_way_.wait_for(longest) == std::future_status::ready;
  if (over) under_way_.get();
}

void CheckpointWriter::notice_failure() {
  wait_at_most(0);
}

void CheckpointWriter::write(int64_t update, const CheckpointContent& content, const Retention& retention) {
  wait();
  folder_.write(update, content);
  folder_.prune(update, retention);
}

void CheckpointWriter::start(int64_t update, CheckpointContent content, Retention retention,
                             std::function<void()> arrive) {
  wait();
  const auto task = std::make_shared<std::packaged_task<void()>>(
      [this, update, retention = std::move(retention), arrive = std::move(arrive),
       copy = std::move(content)]() mutable {
        // Gone when it is written, not when someone waits for it.
        const std::function<void()> arrived = std::move(arrive);
        const CheckpointContent held = std::move(copy);
        if (arrived) arrived();
        folder_.write(update, held);
        folder_.prune(update, retention);
      });
  std::future<void> result = task->get_future();
  under_way_ = std::move(result);
  try {
    thread_ = SmallThread([task] { (*task)(); });
  } catch (const std::exception& error) {
    log::warn("checkpoint", cat("update-", update, " is not written in the background: ", error.what()));
    (*task)();
  }
}

}  // namespace autotrain
