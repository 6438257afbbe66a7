#include "predict/prediction_file.h"

#include "autotrain/error.h"
#include "base/json.h"
#include "base/text.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

fs::path partial_of(const fs::path& path) {
  return path.string() + ".partial";
}

fs::path state_of(const fs::path& path) {
  return path.string() + ".partial.json";
}

template <class State, class Visit>
void visit_state(State& s, const Visit& visit) {
  visit("first_batch", s.first_batch);
  visit("batch", s.batch);
  visit("samples", s.samples);
  visit("bytes", s.bytes);
}

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

// What was written after the last mark may be torn.
void cut_to(const fs::path& partial, int64_t bytes) {
  std::error_code error;
  const auto size = fs::file_size(partial, error);
  if (error || static_cast<int64_t>(size) < bytes) {
    throw Error(ExitCode::kBadData, partial.string(),
                cat("has fewer than the ", bytes, " bytes of its record"), "--overwrite begins anew");
  }
  fs::resize_file(partial, static_cast<std::uintmax_t>(bytes), error);
  if (!error) return;
  errno = error.value();
  throw_io_error(partial, "cutting the torn end");
}

}  // namespace

std::unique_ptr<FileLock> lock_prediction(const fs::path& path) {
  make_folders(folder_of(path));
  return std::make_unique<FileLock>(path.string() + ".partial.lock", path.string(), "a prediction",
                                    FileLock::AtEnd::kRemove);
}

bool check_start(const fs::path& path, PredictionStart start) {
  if (fs::is_directory(path))
    throw Error(ExitCode::kUsage, path.string(), "is a folder", "give --output the name of a file");
  if (start == PredictionStart::kOverwrite) return true;
  if (fs::exists(path)) {
    if (start == PredictionStart::kResume) return false;
    throw Error(ExitCode::kUsage, path.string(), "is there already, and whole",
                "--overwrite replaces it; or give another --output");
  }
  if (start == PredictionStart::kResume || !fs::exists(partial_of(path))) return true;
  throw Error(ExitCode::kUsage, partial_of(path).string(), "is of a prediction that was stopped",
              "--resume goes on with it, --overwrite begins anew");
}

std::optional<PredictionState> stopped_prediction(const fs::path& path) {
  if (!fs::exists(state_of(path)) || !fs::exists(partial_of(path))) return std::nullopt;
  const nlohmann::ordered_json json = read_json(state_of(path));
  try {
    PredictionState state{.identity = json.at("identity")};
    visit_state(state, FieldReader{json});
    return state;
  } catch (const nlohmann::json::exception&) {
    throw Error(ExitCode::kBadData, state_of(path).string(), "is damaged or of another version",
                "--overwrite begins anew");
  }
}

void check_same_prediction(const fs::path& path, const PredictionState& kept,
                           const nlohmann::ordered_json& identity) {
  nlohmann::ordered_json now = as_written(identity);
  for (const auto& [name, value] : kept.identity.items())
    if (!now.contains(name)) now[name] = nullptr;
  for (const auto& [name, value] : now.items()) {
    const nlohmann::ordered_json before = kept.identity.contains(name) ? kept.identity[name] : nullptr;
    const bool unknown = name == "files" && before == nullptr;  // to the version that began it
    if (before == value || unknown) continue;
    throw Error(
        ExitCode::kUsage, partial_of(path).string(),
        cat("was begun with ", name, " ", words_of_json(before), ", and now it is ", words_of_json(value)),
        "--overwrite begins anew; or give another --output");
  }
}

PredictionFile::PredictionFile(fs::path path, PredictionState state)
    : path_(std::move(path)), state_(std::move(state)) {
  if (state_.samples > 0) {
    cut_to(partial_of(path_), state_.bytes);
    file_.emplace(partial_of(path_), OutputFile::Mode::kAppend);
    return;
  }
  remove_file(state_of(path_));  // an older one says nothing of the new file
  state_.bytes = 0;
  file_.emplace(partial_of(path_), OutputFile::Mode::kTruncate);
}

void PredictionFile::write(std::string_view bytes) {
  file_->write(bytes);
  state_.bytes += std::ssize(bytes);
}

void PredictionFile::mark(int64_t samples, int64_t batch) {
  file_->sync();
  state_.samples = samples;
  state_.batch = batch;
  nlohmann::ordered_json json = {{"identity", state_.identity}};
  visit_state(state_, FieldWriter{json});
  write_file_atomically(state_of(path_), text_of_json(json));
}

void PredictionFile::finish() {
  file_->sync();
  file_.reset();
  rename_into_place(partial_of(path_), path_);
  remove_file(state_of(path_));
  sync_folder(folder_of(path_));
}

}  // namespace autotrain
