#include "state/deputy.h"

#include <string_view>
#include <unordered_map>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "report/metrics_file.h"
#include "state/snapshot.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

using Json = nlohmann::ordered_json;

constexpr const char *kRescued = "rescued-", *kMetrics = "metrics.jsonl", *kCheckpoints = "checkpoints";

// Some megabytes. The first rank writes its rows every half second.
constexpr size_t kMostRows = 4096;

size_t digest(const torch::Tensor& tensor) {
  const torch::Tensor here = tensor.detach().cpu().contiguous();
  return std::hash<std::string_view>{}({static_cast<const char*>(here.const_data_ptr()), here.nbytes()});
}

std::vector<size_t> digests_of_buffers(const torch::nn::Module& module) {
  std::vector<size_t> digests;
  for (const torch::Tensor& buffer : module.buffers()) digests.push_back(digest(buffer));
  return digests;
}

// What all ranks have alike of the row of an update; "" of other rows.
std::string common_part(std::string_view line) {
  Json row = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!row.is_object() || row.value("kind", "") != "update") return "";
  for (const std::string& key : timed_keys()) row.erase(key);
  return words_of_json(row);
}

// The folder in which a deputy of this session saves this update.
fs::path claim_of(const fs::path& run, const std::string& session, int64_t update) {
  return run / cat(kRescued, session, '-', update);
}

// Those that deputies have made.
std::vector<fs::path> claims_in(const fs::path& run) {
  std::vector<fs::path> claims;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(run, error)) {
    if (entry.path().filename().string().starts_with(kRescued)) claims.push_back(entry.path());
  }
  return claims;
}

struct Found {
  fs::path claim;
  int64_t update = 0;
  int64_t metrics_bytes = 0;
};

// The newest state that one of this session has saved, and is whole.
std::optional<Found> newest_of(const std::string& session, const std::vector<fs::path>& claims) {
  std::optional<Found> newest;
  for (const fs::path& claim : claims) {
    if (!claim.filename().string().starts_with(cat(kRescued, session, '-'))) continue;
    try {
      const auto state = CheckpointFolder(claim).read_newest_state();
      if (!state || (newest && newest->update >= state->first)) continue;
      newest = {claim, state->first, saved_run(state->second).state.position.metrics_bytes};
    } catch (const Error& broken) {
      if (broken.code() == ExitCode::kInputOutput)
        throw;  // nothing is known of it, so it must not be removed
      log::warn("trainer", broken.what());
    }
  }
  return newest;
}

void take_over(RunFolder& folder, const Found& found) {
  const std::string name = cat("update-", found.update);
  const std::string more = read_file(found.claim / kMetrics);
  const fs::path metrics = folder.path() / kMetrics;
  if (fs::exists(metrics)) cut_lines(metrics, found.metrics_bytes - std::ssize(more));
  OutputFile file(metrics, OutputFile::Mode::kAppend);
  file.write(more);
  file.sync();
  rename_into_place(found.claim / name, folder.path() / kCheckpoints / name);
  sync_folder(folder.path() / kCheckpoints);
  log::info("trainer",
            cat("update ", found.update, " was saved by another rank than the first, and goes on"));
}

}  // namespace

Deputy::Deputy(fs::path run, std::string session, const Workbench& bench, int64_t metrics_bytes)
    : run_(std::move(run)),
      session_(std::move(session)),
      bench_(bench),
      metrics_bytes_(metrics_bytes),
      buffers_(digests_of_buffers(bench.task->module())) {}

void Deputy::on_update(const UpdateRecord& record, int64_t) {
  keep(metrics_row(record));
}

void Deputy::on_evaluation(const EvaluationRecord& record) {
  keep(metrics_row(record));
}

void Deputy::on_event(const EventRecord& record) {
  keep(metrics_row(record));
}

void Deputy::keep(const Json& row) {
  rows_.push_back(text_of_json(row, kOneLine));
  if (rows_.size() <= kMostRows) return;
  rows_.pop_front();
  all_rows_ = false;
}

std::string Deputy::save(const Position& position, const Content& content) const {
  const fs::path there = run_ / kCheckpoints / cat("update-", position.updates);
  std::error_code error;
  if (fs::exists(there, error)) return there.string();
  if (const std::string why = obstacle(position); !why.empty()) {
    log::warn("trainer", cat("the first rank is lost, and update ", position.updates,
                             " cannot be saved in its place: ", why));
    return "";
  }
  const fs::path claim = claim_of(run_, session_, position.updates);
  if (!fs::create_directory(claim, error)) {
    if (!error) return "";  // another rank's
    errno = error.value();
    throw_io_error(claim, "making the folder");
  }
  const Rows rows = this->rows();
  write_file(claim / kMetrics, rows.more);
  CheckpointFolder checkpoint(claim);
  checkpoint.write(position.updates, content(rows.kept_bytes + std::ssize(rows.more)));
  return checkpoint.path_of(position.updates).string();
}

// Why this rank does not have all that the first one would have saved; "": it has.
std::string Deputy::obstacle(const Position& position) const {
  if (session_of(run_) != session_) return "this host does not see the run's folder " + run_.string();
  if (bench_.optimizer->sharded()) return "each rank has only its part of the optimizer's state";
  if (const std::string buffer = changed_buffer(); !buffer.empty())
    return cat("passes change the model's buffer ", quote(buffer), ", and the first rank's is lost");
  const fs::path best = run_ / kCheckpoints / cat("update-", position.best_update);
  if (position.best_update >= 0 && position.best_update != position.updates && !fs::exists(best))
    return cat("the best update, ", position.best_update, ", was not written yet");
  return "";
}

// "": none.
std::string Deputy::changed_buffer() const {
  size_t number = 0;
  for (const auto& buffer : bench_.task->module().named_buffers()) {
    if (number >= buffers_.size() || digest(buffer.value()) != buffers_[number++]) return buffer.key();
  }
  return "";
}

// The file has rows of the first rank up to some update, of which this rank has its own: what follows there
// is taken from here.
Deputy::Rows Deputy::rows() const {
  const fs::path file = run_ / kMetrics;
  std::unordered_map<std::string, size_t> own;
  for (size_t i = 0; i < rows_.size(); ++i) own[common_part(rows_[i])] = i;
  own.erase("");
  std::optional<Rows> rows;
  const auto take_from = [&](std::string_view line, int64_t end) {
    const auto found = own.find(common_part(line));
    if (found != own.end()) rows = {end, rows_from(found->second + 1)};
    return !rows;
  };
  if (fs::exists(file)) for_each_line_backwards(file, metrics_bytes_, INT64_MAX, take_from);
  if (rows) return *std::move(rows);
  if (!all_rows_) log::warn("trainer", "metrics.jsonl lacks rows that no rank has any more");
  return {metrics_bytes_, rows_from(0)};
}

std::string Deputy::rows_from(size_t first) const {
  std::string rows;
  for (size_t i = first; i < rows_.size(); ++i) rows += rows_[i];
  return rows;
}

std::string rescued_state(const fs::path& run, int64_t update) {
  try {
    const std::optional<Found> found = newest_of(session_of(run), claims_in(run));
    if (!found || found->update < update) return "";
    return CheckpointFolder(found->claim).path_of(found->update).string();
  } catch (const Error& unknown) {
    log::warn("trainer", unknown.what());
    return "";
  }
}

void take_over_rescued(RunFolder& folder) {
  const std::vector<fs::path> claims = claims_in(folder.path());
  if (claims.empty()) return;
  const std::vector<int64_t> saved = folder.checkpoints().updates();
  const std::optional<Found> found = newest_of(session_of(folder.path()), claims);
  if (found && (saved.empty() || saved.back() < found->update)) take_over(folder, *found);
  std::error_code ignored;
  for (const fs::path& claim : claims) fs::remove_all(claim, ignored);
}

}  // namespace autotrain
