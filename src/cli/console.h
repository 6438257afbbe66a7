#pragma once

#include <cstdio>
#include <memory>
#include <string>

#include "autotrain/log.h"
#include "autotrain/trainer.h"
#include "base/clock.h"
#include "cli/common_options.h"
#include "device/telemetry.h"
#include "report/live_text.h"

namespace autotrain {

/// What a person at a terminal sees of a run: the start table, trials as they happen, a progress line,
/// a closing summary.
class Console final : public RunObserver {
 public:
  /// Takes over the log's sink until destroyed, so that log lines and the progress line do not mix.
  explicit Console(const PrintOptions& options);
  ~Console() override;

  void on_search_start(const Recipe& recipe) override;
  void on_start(const BatchPlan& plan, const std::vector<std::vector<std::string>>& rows) override;
  void on_update(const UpdateRecord& record, int64_t total_updates) override;
  void on_evaluation_progress(int64_t samples, int64_t total) override;
  void on_evaluation(const EvaluationRecord& record) override;
  void on_event(const EventRecord& record) override;
  void on_finish(const Summary& summary, const BatchPlan& plan,
                 const std::vector<std::string>& advice) override;

 private:
  void print(const std::string& text);
  std::string cores_text();

  enum class Detail { kNothing, kLastLine, kAll };
  Detail detail_;
  LiveText progress_;
  const std::unique_ptr<TelemetrySource> process_ = process_telemetry();
  double first_update_seconds_ = 0;
  int64_t first_update_ = 0;
};

/// The plan with its trials, as `autotrain plan` prints it.
std::string plan_text(const BatchPlan& plan);

}  // namespace autotrain
