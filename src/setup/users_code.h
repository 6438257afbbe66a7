#pragma once

#include <ATen/core/grad_mode.h>

#include <memory>
#include <string>
#include <utility>

#include "autotrain/data.h"
#include "autotrain/task.h"
#include "autotrain/trainer.h"
#include "step/own_code.h"

namespace autotrain {

/// Of the exception under way, which is no std::exception: "threw int, which is no std::exception".
std::string words_of_odd_exception();

/// Calls code of the user's own, named `method` in errors. The gradient mode that it leaves behind goes no
/// further.
template <class Call>
auto call_user(const std::string& method, Call call) {
  const at::AutoGradMode as_before(at::GradMode::is_enabled());
  try {
    return call();
  } catch (const std::exception&) {
    rethrow_from_user(method, "");
  }
}

/// The user's task, each result of which is held against what Task promises.
std::unique_ptr<Task> checked_task(std::unique_ptr<Task> task);

/// The user's data set, likewise. @param data must outlive the result. @param names_samples
/// whether batches say which samples they hold.
/// @throws Error(kBrokenContract) when it is empty, or gives a cost for some of its samples only.
std::unique_ptr<const Dataset> checked_dataset(const Dataset& data, const std::string& name,
                                               bool names_samples);

/// Passes everything on to the user's observer.
class CheckedObserver final : public RunObserver {
 public:
  /// @param inner null: nobody looks. Otherwise it must outlive this object.
  explicit CheckedObserver(RunObserver* inner) : inner_(inner) {}

  void on_folder(const std::filesystem::path& folder) override {
    tell("on_folder", &RunObserver::on_folder, folder);
  }
  void on_search_start(const Recipe& recipe) override {
    tell("on_search_start", &RunObserver::on_search_start, recipe);
  }
  void on_trial(int64_t micro_batch) override { tell("on_trial", &RunObserver::on_trial, micro_batch); }
  void on_probe(const ProbeRecord& probe) override { tell("on_probe", &RunObserver::on_probe, probe); }
  void on_start(const BatchPlan& plan, const std::vector<std::vector<std::string>>& rows) override {
    tell("on_start", &RunObserver::on_start, plan, rows);
  }
  void on_update(const UpdateRecord& update, int64_t total_updates) override {
    tell("on_update", &RunObserver::on_update, update, total_updates);
  }
  void on_evaluation_progress(int64_t samples, int64_t total) override {
    tell("on_evaluation_progress", &RunObserver::on_evaluation_progress, samples, total);
  }
  void on_evaluation(const EvaluationRecord& evaluation) override {
    tell("on_evaluation", &RunObserver::on_evaluation, evaluation);
  }
  void on_event(const EventRecord& event) override { tell("on_event", &RunObserver::on_event, event); }
  void on_finish(const Summary& summary, const BatchPlan& plan,
                 const std::vector<std::string>& advice) override {
    tell("on_finish", &RunObserver::on_finish, summary, plan, advice);
  }

 private:
  template <class Method, class... Arguments>
  void tell(const char* name, Method method, const Arguments&... arguments) {
    if (inner_ == nullptr) return;
    call_user(std::string("RunObserver::") + name, [&] { (inner_->*method)(arguments...); });
  }

  RunObserver* inner_;
};

}  // namespace autotrain
