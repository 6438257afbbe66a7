#include "loop/telemetry_sampler.h"

#include <chrono>

#include "autotrain/log.h"
#include "base/clock.h"
#include "base/json.h"

namespace autotrain {

TelemetrySampler::TelemetrySampler(std::vector<std::unique_ptr<TelemetrySource>> sources,
                                   const std::filesystem::path& path, double period_seconds, double origin)
    : sources_(std::move(sources)), period_seconds_(period_seconds), origin_(origin) {
  if (!path.empty()) file_ = std::make_unique<OutputFile>(path, OutputFile::Mode::kAppend);
  try {
    thread_ = SmallThread([this] { work(); });
  } catch (const std::exception& error) {
    log::warn("telemetry", error.what());  // a run does not depend on it
  }
}

TelemetrySampler::~TelemetrySampler() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopping_.notify_all();
  thread_.join();
}

void TelemetrySampler::work() {
  const std::chrono::duration<double> period(period_seconds_);
  std::unique_lock lock(mutex_);
  while (!stopping_.wait_for(lock, period, [&] { return stop_; })) {
    lock.unlock();
    try {
      sample();
    } catch (const std::exception& error) {
      // A full disk ends a run where its state is at stake, not here.
      log::warn("telemetry", error.what());
      file_.reset();
    }
    lock.lock();
  }
}

void TelemetrySampler::sample() {
  TelemetryValues values;
  for (const auto& source : sources_) source->read(values);
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, value] : values) {
      sums_[name].first += value;
      ++sums_[name].second;
    }
  }
  if (!file_) return;
  nlohmann::ordered_json row = {{"seconds", steady_seconds() - origin_}, {"update", update_.load()}};
  row.update(values);
  file_->write(text_of_json(row, kOneLine));
}

TelemetryValues TelemetrySampler::means() const {
  const std::lock_guard lock(mutex_);
  TelemetryValues means;
  for (const auto& [name, sum] : sums_) means[name] = sum.first / static_cast<double>(sum.second);
  return means;
}

}  // namespace autotrain
