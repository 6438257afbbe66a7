#include "study/study.h"

#include <signal.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/child.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/folder_lock.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/text.h"
#include "comm/local_ranks.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

using Json = nlohmann::ordered_json;

bool would_fail_again(int code) {
  constexpr std::array kForGood = {ExitCode::kDoesNotFit, ExitCode::kDiverged, ExitCode::kBadRecipe};
  return std::ranges::count(kForGood, static_cast<ExitCode>(code)) > 0;
}

Json to_json(const StudyRun& run, const StudyResult& result) {
  return {{"name", run.name},
          {"code", result.code},
          {"failure", result.failure.empty() ? Json(nullptr) : Json(result.failure)},
          {"seconds", result.seconds},
          {"value", result.value},
          {"definition", run.definition}};
}

StudyResult from_json(const Json& json) {
  StudyResult result{.name = json.at("name"), .value = json.at("value"), .code = json.at("code")};
  result.seconds = json.at("seconds");
  if (json.at("failure").is_string()) result.failure = json.at("failure");
  return result;
}

// As people read it.
std::string value_at(const Json& json, const std::string& path) {
  const Json::json_pointer pointer(path);
  if (!json.contains(pointer)) return "absent";
  return plain_text(json.at(pointer));
}

// The last words of a process that left no result.
std::string why_it_ended(int code, const fs::path& log) {
  const std::string how =
      code < 0 ? cat("killed by ", named_signal(-code)) : cat("ended with ", code, " and without a result");
  return cat(how, code == -SIGKILL ? ", perhaps because the machine ran out of memory" : "", "; see ",
             log.string());
}

// So that no study ends up among the files of something else.
void claim(const fs::path& folder, const std::string& kind) {
  const fs::path marker = folder / "study.json";
  std::string held = fs::exists(folder / "recipe.yaml") ? "run" : "";
  if (fs::exists(marker)) {
    const Json json = Json::parse(read_file(marker), nullptr, /*allow_exceptions=*/false);
    held = json.is_object() ? json.value("kind", "study") : "damaged study";
  }
  if (!held.empty() && held != kind) {
    throw Error(ExitCode::kUsage, folder.string(), cat("holds a ", held, ", not a ", kind),
                "give another --output");
  }
  if (held.empty()) write_file_atomically(marker, text_of_json({{"kind", kind}}, kOneLine));
}

class Study {
 public:
  Study(const std::vector<StudyRun>& runs, const StudyOptions& options) : runs_(runs), options_(options) {}

  std::vector<StudyResult> run() {
    make_folders(options_.folder);
    lock_ = std::make_unique<FolderLock>(options_.folder);
    claim(options_.folder, options_.kind);
    make_folders(options_.folder / "results");
    make_folders(options_.folder / "logs");
    load_finished();
    for (const StudyRun& run : runs_) {
      if (results_.contains(run.name)) options_.on_result(results_.at(run.name));
    }
    for (const StudyRun& run : runs_) {
      if (!is_to_run(run)) continue;
      results_[run.name] = finish(run);
      options_.on_result(results_.at(run.name));
    }
    std::vector<StudyResult> in_order;
    for (const StudyRun& run : runs_) {
      if (results_.contains(run.name)) in_order.push_back(results_.at(run.name));
    }
    return in_order;
  }

 private:
  fs::path result_file(const StudyRun& run) const { return study_result_file(options_.folder, run.name); }
  fs::path log_file(const StudyRun& run) const { return options_.folder / "logs" / (run.name + ".log"); }
  fs::path log_file(const StudyRun& run, int64_t rank) const {
    return options_.folder / "logs" / cat(run.name, "-rank-", rank, ".log");
  }

  bool is_to_run(const StudyRun& run) const { return !results_.contains(run.name) && options_.wanted(run); }

  void load_finished() {
    for (const StudyRun& run : runs_) {
      if (auto result = stored(run); result && (!result->failed() || would_fail_again(result->code))) {
        result->kept = true;
        results_[run.name] = std::move(*result);
      }
    }
  }

  std::optional<StudyResult> stored(const StudyRun& run) const;
  StudyResult finish(const StudyRun& run);
  int wait_for(Child& child, const StudyRun& run);
  int work(const StudyRun& run);
  void record(const StudyRun& run, bool writes);
  std::optional<double> seconds_left(const StudyRun& running, double so_far) const;

  const std::vector<StudyRun>& runs_;
  const StudyOptions& options_;
  std::unique_ptr<FolderLock> lock_;
  std::map<std::string, StudyResult> results_;
};

std::optional<StudyResult> Study::stored(const StudyRun& run) const {
  const fs::path path = result_file(run);
  if (!fs::exists(path)) return std::nullopt;
  try {
    const Json json = Json::parse(read_file(path));
    const std::string difference = difference_of(json.at("definition"), run.definition);
    if (difference.empty()) return from_json(json);
    throw Error(ExitCode::kUsage, path.string(),
                cat("comes from another definition of the study: ", difference),
                "give another --output: a folder holds one study");
  } catch (const nlohmann::json::exception& error) {
    throw Error(ExitCode::kBadData, path.string(), cat("is no result of a run: ", error.what()),
                "remove the file to have the run again");
  }
}

// In the run's own process, which several ranks leave again for one each.
int Study::work(const StudyRun& run) {
  if (run.ranks == 1) return record(run, /*writes=*/true), 0;
  install_signal_handlers();
  const RanksEnd end = run_ranks(
      run.ranks, [&](int64_t rank) { return record(run, /*writes=*/rank == 0), 0; },
      [&](int64_t rank) { return rank == 0 ? fs::path() : log_file(run, rank); });
  if (!end.text.empty()) log::warn("study", end.text);
  return static_cast<int>(end.code);
}

// The result is on disk, whole, before the process ends.
void Study::record(const StudyRun& run, bool writes) {
  const Stopwatch watch;
  StudyResult result{.name = run.name};
  try {
    result.value = run.work();
  } catch (const Error& error) {
    if (error.code() == ExitCode::kInterrupted) throw;
    result.code = static_cast<int>(error.code());
    result.failure = error.what();
  }
  result.seconds = watch.seconds();
  if (writes) write_file_atomically(result_file(run), text_of_json(to_json(run, result)));
}

StudyResult Study::finish(const StudyRun& run) {
  stop_if_interrupted("study", "stopped by a signal; finished runs are kept");
  fs::remove(result_file(run));  // of a failure
  const Stopwatch watch;
  Child child([&] { return work(run); }, log_file(run));
  const int code = wait_for(child, run);
  if (auto result = stored(run)) return *result;
  stop_if_interrupted("study", "stopped by a signal; finished runs are kept");
  const StudyResult result{.name = run.name,
                           .failure = why_it_ended(code, log_file(run)),
                           .code = code,
                           .seconds = watch.seconds()};
  write_file_atomically(result_file(run), text_of_json(to_json(run, result)));
  return result;
}

int Study::wait_for(Child& child, const StudyRun& run) {
  const Stopwatch watch;
  return child.wait_forwarding_stop([&] {
    const auto left = static_cast<size_t>(
        std::ranges::count_if(runs_, [this](const StudyRun& each) { return is_to_run(each); }));
    options_.on_progress(
        {.done = results_.size(),
         .total = results_.size() + left,
         .running = run.label.empty() ? run.name : run.label,
         .seconds_left = options_.more_may_follow ? std::nullopt : seconds_left(run, watch.seconds())});
  });
}

// Every run that is left takes, for its size, as long as those of its variant, or as all where that is
// unknown.
std::optional<double> Study::seconds_left(const StudyRun& running, double so_far) const {
  std::map<std::string, std::pair<double, double>> spent;  // by variant, "" is all: seconds, sizes
  for (const StudyRun& run : runs_) {
    const auto result = results_.find(run.name);
    if (run.variant.empty() || result == results_.end() || result->second.failed()) continue;
    for (const std::string& group : {run.variant, std::string()}) {
      spent[group].first += result->second.seconds;
      spent[group].second += run.size;
    }
  }
  if (spent.empty()) return std::nullopt;
  double left = 0;
  for (const StudyRun& run : runs_) {
    if (!is_to_run(run) || run.variant.empty()) continue;
    const auto& [seconds, sizes] = spent[spent.contains(run.variant) ? run.variant : ""];
    const double each = seconds / sizes * run.size;
    left += run.name == running.name ? std::max(0.0, each - so_far) : each;
  }
  return left;
}

}  // namespace

std::vector<StudyResult> run_study(const std::vector<StudyRun>& runs, const StudyOptions& options) {
  return Study(runs, options).run();
}

std::string difference_of(const Json& kept, const Json& definition) {
  constexpr std::string_view kRecipe = "/recipe/", kFiles = "/files/";
  const Json now = as_written(definition);
  const Json changes = Json::diff(kept, now);
  if (changes.empty()) return "";
  const auto path = changes.at(0).at("path").get<std::string>();
  if (path.empty()) return "all of it differs";
  if (path.starts_with(kFiles))
    return cat("the files of ", path.substr(kFiles.size()), " have changed, from ", value_at(kept, path),
               " to ", value_at(now, path));
  const std::string key = path.starts_with(kRecipe) ? path.substr(kRecipe.size()) : path.substr(1);
  return cat(key, " is ", value_at(kept, path), " there and ", value_at(now, path), " now");
}

fs::path study_result_file(const fs::path& folder, const std::string& run) {
  return folder / "results" / (run + ".json");
}

ExitCode exit_code_of(int code) {
  return code > 0 ? static_cast<ExitCode>(code) : ExitCode::kInternal;
}

std::vector<std::pair<size_t, size_t>> interleaved(size_t rounds, size_t variants) {
  std::vector<std::pair<size_t, size_t>> order;
  for (size_t round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < variants; ++i) order.emplace_back(round, (round + i) % variants);
  }
  return order;
}

}  // namespace autotrain
