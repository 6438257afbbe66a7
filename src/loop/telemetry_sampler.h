#pragma once

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "autotrain/trainer.h"
#include "base/files.h"
#include "base/small_thread.h"
#include "device/telemetry.h"

namespace autotrain {

/// Asks its sources how they are doing every so often, in a thread of its own, and writes one row each time:
/// `seconds` on the clock of the run, `update` as of then, and the readings.
class TelemetrySampler final : public RunObserver {
 public:
  /// @param path     appended to; empty: nothing is written.
  /// @param origin   `steady_seconds` at which the run's clock stood at zero.
  TelemetrySampler(std::vector<std::unique_ptr<TelemetrySource>> sources, const std::filesystem::path& path,
                   double period_seconds, double origin);
  ~TelemetrySampler() override;
  TelemetrySampler(const TelemetrySampler&) = delete;
  TelemetrySampler& operator=(const TelemetrySampler&) = delete;

  void on_update(const UpdateRecord& record, int64_t) override { update_ = record.update; }

  /// The mean of every reading so far.
  TelemetryValues means() const;

 private:
  void work();
  void sample();

  const std::vector<std::unique_ptr<TelemetrySource>> sources_;
  const double period_seconds_, origin_;
  std::unique_ptr<OutputFile> file_;
  std::atomic<int64_t> update_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable stopping_;
  bool stop_ = false;
  std::map<std::string, std::pair<double, int64_t>> sums_;  // of each reading, and how many
  SmallThread thread_;
};

}  // namespace autotrain
