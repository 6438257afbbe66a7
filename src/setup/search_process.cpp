#include "setup/search_process.h"

#include <signal.h>

#include <cstdlib>
#include <optional>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/child.h"
#include "base/clock.h"
#include "base/error_json.h"
#include "base/heap_refused.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/pipe.h"
#include "base/text.h"
#include "device/device_error.h"
#include "device/failure.h"
#include "plan/plan_json.h"
#include "setup/users_code.h"

namespace autotrain {
namespace {

using Json = nlohmann::ordered_json;

// The two processes send each other messages, one JSON object a line.
constexpr const char* kLog = "log";
constexpr const char* kStart = "trial";
constexpr const char* kEnd = "trial_ended";
constexpr const char* kPlan = "plan";
constexpr const char* kError = "error";

// ------------------------------------------------------------------ in the process that searches

class Reporter final : public RunObserver {
 public:
  explicit Reporter(const Pipe& pipe) : pipe_(pipe) {}
  void on_trial(int64_t micro_batch) override { say({{kStart, micro_batch}}); }
  void on_probe(const ProbeRecord& probe) override { say({{kEnd, probe_to_json(probe)}}); }
  void say(const Json& message) const { pipe_.write(text_of_json(message, kOneLine)); }

 private:
  const Pipe& pipe_;
};

int search(const MakePlan& make, const std::vector<ProbeRecord>& known, const Pipe& pipe) {
  Reporter reporter(pipe);
  log::set_sink(
      [&](const log::Record& record) {
        reporter.say({{kLog, {static_cast<int>(record.level), record.room, record.text}}});
      },
      log::Level::kDebug);
  const LostDeviceScope lost([&](const DeviceLost& error) -> DeviceLost {
    reporter.say({{kError, error_to_json(error)}});
    std::_Exit(0);
  });
  try {
    const BatchPlan plan = naming_device_errors([&] { return make(known, reporter); });
    reporter.say({{kPlan, plan_to_json(plan)}});
  } catch (const Error& error) {
    reporter.say({{kError, error_to_json(error)}});
  } catch (const std::exception& error) {
    const bool refused = classify_failure(error) == Failure::kOutOfMemory;
    reporter.say({{kError, refused ? error_to_json(heap_refused())
                                   : nlohmann::ordered_json{{"internal", error.what()}}}});
  } catch (...) {
    reporter.say({{kError, error_to_json(Error(ExitCode::kBrokenContract, "the program's own code",
                                               words_of_odd_exception(), "throw autotrain::Error"))}});
  }
  return 0;
}

// ------------------------------------------------------------------ in the process that waits for the plan

class Search {
 public:
  Search(const MakePlan& make, RunObserver& observer) : make_(make), observer_(observer) {}

  BatchPlan run() {
    while (!plan_) run_process();
    return *std::move(plan_);
  }

 private:
  void run_process();
  void listen(Pipe& pipe, Child& child);
  void take(const Json& message);
  void note_crash(int code);

  const MakePlan& make_;
  RunObserver& observer_;
  std::vector<ProbeRecord> known_;
  std::optional<int64_t> under_way_;  // the size of the trial that was started and not ended
  std::optional<BatchPlan> plan_;
  std::optional<Json> error_;
};

// Whether a process ended as one does that is wrong, and rarely one that gets no memory.
bool ended_by_fault(int code) {
  return code == -SIGSEGV || code == -SIGILL || code == -SIGFPE;
}

[[noreturn]] void rethrow(const Json& error) {
  if (error.contains("internal")) throw std::runtime_error(error.at("internal").get<std::string>());
  throw error_from_json(error);
}

void Search::run_process() {
  under_way_.reset();
  Pipe pipe;
  Child child([&] { return search(make_, known_, pipe); });
  pipe.close_writing();  // so that it ends with the process
  listen(pipe, child);
  const int code = child.wait();
  if (error_) rethrow(*error_);
  if (!plan_) note_crash(code);
}

// Told to stop, the other process ends after the micro-batch that it is at. If that takes long, or hangs in a
// library, it is killed: a search that is cut short loses nothing.
void Search::listen(Pipe& pipe, Child& child) {
  constexpr int kTickMilliseconds = 200;
  constexpr double kGraceSeconds = 5;
  std::optional<Stopwatch> since_told;
  while (const auto line = pipe.read_line(kTickMilliseconds)) {
    if (!line->empty()) take(Json::parse(*line));
    if (pending_interrupt() != Interrupt::kStop) continue;
    if (!since_told) {
      child.send(SIGTERM);
      since_told.emplace();
    } else if (since_told->seconds() > kGraceSeconds) {
      child.send(SIGKILL);
    }
  }
}

void Search::take(const Json& message) {
  const std::string& kind = message.begin().key();
  const Json& value = message.begin().value();
  if (kind == kStart) {
    under_way_ = value.get<int64_t>();
    observer_.on_trial(*under_way_);
  } else if (kind == kEnd) {
    under_way_.reset();
    known_.push_back(probe_from_json(value));
    observer_.on_probe(known_.back());
  } else if (kind == kLog) {
    log::write(static_cast<log::Level>(value.at(0).get<int>()), value.at(1).get_ref<const std::string&>(),
               value.at(2).get_ref<const std::string&>());
  } else if (kind == kPlan) {
    plan_ = plan_from_json(value);
  } else if (kind == kError) {
    error_ = value;
  }
}

void Search::note_crash(int code) {
  stop_if_interrupted("plan", "a signal stopped the search; nothing else was begun yet");
  const std::string how = ended_how(code);
  if (!under_way_) {
    throw Error(
        ExitCode::kInternal, "plan", cat("the process that searches the micro-batch ", how),
        code == -SIGKILL ? "the system may have run out of memory: lower execution.memory.budget" : "");
  }
  const auto same = [&](const ProbeRecord& r) {
    return r.micro_batch == *under_way_ && r.outcome == ProbeOutcome::kCrashed;
  };
  if (std::ranges::any_of(known_, same)) {
    throw Error(
        ExitCode::kDoesNotFit, "plan",
        cat("the process of a trial of ", *under_way_, " samples ", how, ", twice"),
        ended_by_fault(code)
            ? "look for a fault in a module or kernel, which that is more likely than want of memory: "
              "does a batch of this size train by hand? Or type another execution.micro_batch"
            : "lower execution.memory.budget, or type execution.micro_batch");
  }
  log::warn("plan", cat("a trial of ", *under_way_, *under_way_ == 1 ? " sample " : " samples ", how,
                        ": it counts as one that does not fit",
                        ended_by_fault(code)
                            ? ", though a fault in a module or kernel ends so, and rarely want of memory"
                            : ""));
  known_.push_back({.micro_batch = *under_way_, .outcome = ProbeOutcome::kCrashed});
  observer_.on_probe(known_.back());
}

}  // namespace

BatchPlan plan_in_own_process(const MakePlan& make, RunObserver& observer) {
  return Search(make, observer).run();
}

}  // namespace autotrain
