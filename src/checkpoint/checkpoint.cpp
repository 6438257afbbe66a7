#include "checkpoint/checkpoint.h"

#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <set>
#include <unordered_map>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/descriptors.h"
#include "base/file_layer.h"
#include "base/files.h"
#include "base/full_disk.h"
#include "base/json.h"
#include "base/text.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/update_folders.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;
constexpr const char* kTemporary = ".tmp";
constexpr const char* kAside = ".aside";
constexpr const char* kManifest = "manifest.json";
constexpr const char* kModel = "model.safetensors";
constexpr const char* kOptimizer = "optimizer.safetensors";
constexpr const char* kAveraged = "averaged.safetensors";
constexpr const char* kState = "state.json";
constexpr std::array kRequired = {kModel, kOptimizer, kState};
constexpr const char* kOtherRun = "resume with the recipe that made it, or start a new run";

uint32_t checksum_of(const fs::path& path) {
  InputFile in(path);
  std::vector<Bytef> chunk(1 << 20);
  uLong sum = ::crc32(0, nullptr, 0);
  while (const size_t got = in.read(chunk.data(), chunk.size()))
    sum = ::crc32(sum, chunk.data(), static_cast<uInt>(got));
  return static_cast<uint32_t>(sum);
}

Json manifest_of(const fs::path& folder) {
  Json files = Json::object();
  for (const char* const name : {kModel, kOptimizer, kAveraged, kState}) {
    if (!fs::exists(folder / name)) continue;
    files[name] = {{"bytes", fs::file_size(folder / name)}, {"crc32", checksum_of(folder / name)}};
  }
  return {{"format", kFormat}, {"files", std::move(files)}};
}

Json parse_file(const fs::path& path) {
  Json json = Json::parse(read_file(path), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) throw Error(ExitCode::kBadData, path.string(), "is not a JSON object");
  return json;
}

void verify_file(const fs::path& path, const Json& entry) {
  uintmax_t bytes = 0;
  uint32_t crc = 0;
  read_exactly(entry.at("bytes"), bytes);
  read_exactly(entry.at("crc32"), crc);
  std::error_code error;
  if (fs::file_size(path, error) != bytes || error) {
    throw Error(ExitCode::kBadData, path.string(), "is missing or has another size than the manifest says");
  }
  if (checksum_of(path) != crc) {
    throw Error(ExitCode::kBadData, path.string(), "has another checksum than the manifest says");
  }
}

void verify(const fs::path& folder) {
  const Json manifest = parse_file(folder / kManifest);
  try {
    int format = 0;
    read_exactly(manifest.at("format"), format);
    if (format != kFormat) {
      throw Error(ExitCode::kBadData, (folder / kManifest).string(),
                  "is of format " + std::to_string(format) + ", not " + std::to_string(kFormat));
    }
    const Json& files = manifest.at("files");
    for (const char* const name : kRequired) verify_file(folder / name, files.at(name));
    if (files.size() > kRequired.size() || fs::exists(folder / kAveraged)) {
      verify_file(folder / kAveraged, files.at(kAveraged));
    }
  } catch (const nlohmann::json::exception&) {
    throw Error(ExitCode::kBadData, (folder / kManifest).string(), "does not say what the files must be");
  }
}

void write_files(const fs::path& folder, const CheckpointContent& content) {
  make_folders(folder);
  write_safetensors(folder / kModel, content.tensors.model);
  write_safetensors(folder / kOptimizer, content.tensors.optimizer);
  if (!content.tensors.averaged.empty()) write_safetensors(folder / kAveraged, content.tensors.averaged);
  write_file(folder / kState, text_of_json(content.state, 1));
  write_file(folder / kManifest, text_of_json(manifest_of(folder), 1));
  sync_folder(folder);
}

// A folder cannot be renamed over another one, but the two can change places in one step. On file systems
// that cannot do that the old one steps aside, and comes back when the new one cannot take its place.
void move_into_place(const fs::path& made, const fs::path& target, const fs::path& aside) {
  FileLayer& files = file_layer();
  if (files.rename(made.c_str(), target.c_str()) == 0) return;
  if (errno != ENOTEMPTY && errno != EEXIST) throw_io_error(target, "renaming into place");
  if (files.exchange(made.c_str(), target.c_str()) == 0) return;
  if (errno != EINVAL && errno != ENOSYS) throw_io_error(target, "renaming into place");
  if (files.rename(target.c_str(), aside.c_str()) != 0) throw_io_error(target, "renaming aside");
  if (files.rename(made.c_str(), target.c_str()) != 0) {
    const int error = errno;
    files.rename(aside.c_str(), target.c_str());
    errno = error;
    throw_io_error(target, "renaming into place");
  }
  std::error_code ignored;
  fs::remove_all(aside, ignored);
}

// The folder that an interrupted replacement left aside is the checkpoint, if nothing has taken its place.
void put_back(const fs::path& aside, const fs::path& target) {
  if (::access(aside.c_str(), F_OK) != 0) return;
  std::error_code ignored;
  if (fs::exists(target, ignored)) {
    fs::remove_all(aside, ignored);
  } else {
    fs::rename(aside, target, ignored);
  }
}

// A state that cannot be read names none.
int64_t best_named_by(const fs::path& checkpoint, const Retention& retention) {
  try {
    return retention.best_in ? retention.best_in(parse_file(checkpoint / kState)) : -1;
  } catch (const std::exception&) {
    return -1;
  }
}

}  // namespace

int64_t TensorLists::bytes() const {
  int64_t sum = 0;
  for (const auto* list : {&model, &optimizer, &averaged}) {
    for (const NamedTensor& item : *list) sum += static_cast<int64_t>(item.tensor.nbytes());
  }
  return sum;
}

TensorLists copy_of(const TensorLists& live, const CopyTensors& copy) {
  std::vector<torch::Tensor> distinct;
  std::unordered_map<const void*, size_t> numbers;
  for (const auto* list : {&live.model, &live.optimizer, &live.averaged}) {
    for (const NamedTensor& item : *list) {
      if (numbers.emplace(item.tensor.unsafeGetTensorImpl(), distinct.size()).second)
        distinct.push_back(item.tensor);
    }
  }
  const std::vector<torch::Tensor> copies = copy(distinct);
  check_invariant(copies.size() == distinct.size(), "every tensor has its copy");
  const auto copies_of = [&](const std::vector<NamedTensor>& list) {
    std::vector<NamedTensor> copied;
    for (const NamedTensor& item : list)
      copied.push_back({item.name, copies[numbers.at(item.tensor.unsafeGetTensorImpl())]});
    return copied;
  };
  return {copies_of(live.model), copies_of(live.optimizer), copies_of(live.averaged)};
}

CheckpointFolder::CheckpointFolder(fs::path folder) : folder_(std::move(folder)) {}

fs::path CheckpointFolder::path_of(int64_t update) const {
  return folder_ / name_of_update(update);
}

fs::path CheckpointFolder::aside_of(int64_t update) const {
  return folder_ / cat(".", name_of_update(update), kAside);
}

void CheckpointFolder::write(int64_t update, const CheckpointContent& content) {
  const fs::path target = path_of(update);
  const fs::path temporary = folder_ / cat(".", name_of_update(update), kTemporary);
  std::error_code ignored;
  waiting_for_room([&] {
    fs::remove_all(temporary, ignored);
    put_back(aside_of(update), target);
    try {
      write_files(temporary, content);
      move_into_place(temporary, target, aside_of(update));
    } catch (const std::exception&) {
      fs::remove_all(temporary, ignored);  // the disk may be full: leave it room to say so
      throw;
    }
    sync_folder(folder_);
  });
  fs::remove_all(temporary, ignored);  // the one that was replaced
}

Json CheckpointFolder::read_state(int64_t update) const {
  verify(path_of(update));
  return parse_file(path_of(update) / kState);
}

void CheckpointFolder::read_tensors(int64_t update, const TensorLists& live) const {
  read_safetensors_into(path_of(update) / kModel, live.model, kOtherRun);
  read_safetensors_into(path_of(update) / kOptimizer, live.optimizer, kOtherRun);
  if (live.averaged.empty() || !holds_averages(update)) return;
  read_safetensors_into(path_of(update) / kAveraged, live.averaged, kOtherRun);
}

bool CheckpointFolder::holds_averages(int64_t update) const {
  return fs::exists(path_of(update) / kAveraged);
}

std::optional<std::pair<int64_t, Json>> CheckpointFolder::read_newest_state(int64_t before) const {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_, error)) {
    if (entry.path().extension() == kAside)
      put_back(entry.path(), folder_ / entry.path().stem().string().substr(1));
  }
  std::vector<int64_t> candidates = updates();
  std::erase_if(candidates, [&](int64_t update) { return update >= before; });
  for (auto update = candidates.rbegin(); update != candidates.rend(); ++update) {
    try {
      return std::pair(*update, read_state(*update));
    } catch (const Error& broken) {
      // That it could not be read says nothing of what it holds, and one that is skipped is removed later.
      if (broken.code() == ExitCode::kInputOutput) throw;
      log::warn("checkpoint",
                cat("update-", *update, " is broken and skipped: ", broken.where(), ": ", broken.problem()));
    }
  }
  if (candidates.empty()) return std::nullopt;
  throw Error(ExitCode::kBadData, folder_.string(), "none of its checkpoints is whole",
              "start a new run in another folder");
}

std::vector<int64_t> CheckpointFolder::updates() const {
  return updates_in(folder_);
}

void CheckpointFolder::prune(int64_t newest, const Retention& retention) const {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder_, ignored)) {
    if (entry.path().extension() == kTemporary) fs::remove_all(entry.path(), ignored);
  }
  const std::vector<int64_t> all = updates();
  const auto end = std::upper_bound(all.begin(), all.end(), newest);
  const std::set<int64_t> kept(end - std::min<ptrdiff_t>(retention.keep, end - all.begin()), end);
  std::set<int64_t> best;
  for (const int64_t update : kept) best.insert(best_named_by(path_of(update), retention));
  for (const int64_t update : all) {
    if (!kept.contains(update) && !best.contains(update)) fs::remove_all(path_of(update), ignored);
  }
}

}  // namespace autotrain
