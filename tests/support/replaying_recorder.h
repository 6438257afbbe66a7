#pragma once

#include <memory>
#include <utility>

#include "device/work_recorder.h"

namespace autotrain::test {

/// Stands in for a GPU's recorder on a CPU, where nothing can be recorded: what it "records" is done at once,
/// in the place of the first replay, and done again by every later one. So a recording of other memory than
/// it is used for gives wrong numbers, and what may not be recorded can be refused. Numbers of the host that
/// a GPU would have kept are read anew: only a GPU shows what depends on them.
class ReplayingRecorder final : public WorkRecorder {
 public:
  /// What happened to all recordings together.
  struct Counts {
    int64_t recorded = 0, replayed = 0, alive = 0;
    int64_t refuse_from = -1;  ///< recordings from this number on cannot be made; negative: all can
  };

  explicit ReplayingRecorder(std::shared_ptr<Counts> counts) : counts_(std::move(counts)) {}

  std::unique_ptr<RecordedWork> record(const std::function<void()>& work) override {
    if (counts_->refuse_from >= 0 && counts_->recorded >= counts_->refuse_from)
      throw CannotRecord("it waits for the device");
    work();
    ++counts_->recorded;
    return std::make_unique<Work>(work, counts_);
  }

 private:
  class Work final : public RecordedWork {
   public:
    Work(std::function<void()> work, std::shared_ptr<Counts> counts)
        : work_(std::move(work)), counts_(std::move(counts)) {
      ++counts_->alive;
    }
    ~Work() override { --counts_->alive; }
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;

    void replay() override {
      ++counts_->replayed;
      if (!std::exchange(first_, false)) work_();
    }

   private:
    const std::function<void()> work_;
    const std::shared_ptr<Counts> counts_;
    bool first_ = true;
  };

  const std::shared_ptr<Counts> counts_;
};

}  // namespace autotrain::test
