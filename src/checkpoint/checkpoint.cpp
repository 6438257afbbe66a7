#include "checkpoint/checkpoint.h"

#include <fcntl.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <fstream>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/files.h"
#include "base/text.h"
#include "checkpoint/safetensors.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kPrefix = "update-";
constexpr const char* kManifest = "manifest.json";
constexpr std::array<const char*, 3> kFiles = {"model.safetensors", "optimizer.safetensors", "state.json"};

uint32_t checksum_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Error(ExitCode::kBadData, path.string(), "is missing or cannot be read");
  std::vector<char> chunk(1 << 20);
  uLong sum = ::crc32(0, nullptr, 0);
  while (in.read(chunk.data(), static_cast<std::streamsize>(chunk.size())) || in.gcount() > 0) {
    sum = ::crc32(sum, reinterpret_cast<const Bytef*>(chunk.data()), static_cast<uInt>(in.gcount()));
  }
  return static_cast<uint32_t>(sum);
}

Json manifest_of(const fs::path& folder) {
  Json files = Json::object();
  for (const char* const name : kFiles) {
    files[name] = {{"bytes", fs::file_size(folder / name)}, {"crc32", checksum_of(folder / name)}};
  }
  return {{"format", 1}, {"files", std::move(files)}};
}

Json read_json(const fs::path& path) {
  Json json = Json::parse(read_file(path), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) throw Error(ExitCode::kBadData, path.string(), "is not a JSON object");
  return json;
}

void verify(const fs::path& folder) {
  const Json manifest = read_json(folder / kManifest);
  for (const char* const name : kFiles) {
    const fs::path path = folder / name;
    try {
      const Json& entry = manifest.at("files").at(name);
      std::error_code error;
      if (fs::file_size(path, error) != entry.at("bytes").get<uintmax_t>() || error) {
        throw Error(ExitCode::kBadData, path.string(),
                    "is missing or has another size than the manifest says");
      }
      if (checksum_of(path) != entry.at("crc32").get<uint32_t>()) {
        throw Error(ExitCode::kBadData, path.string(), "has another checksum than the manifest says");
      }
    } catch (const nlohmann::json::exception&) {
      throw Error(ExitCode::kBadData, (folder / kManifest).string(), cat("says nothing useful about ", name));
    }
  }
}

void write_files(const fs::path& folder, const CheckpointContent& content) {
  make_folders(folder);
  write_safetensors(folder / kFiles[0], content.tensors.model);
  write_safetensors(folder / kFiles[1], content.tensors.optimizer);
  write_file(folder / kFiles[2], content.state.dump(1) + "\n");
  write_file(folder / kManifest, manifest_of(folder).dump(1) + "\n");
  sync_folder(folder);
}

// A folder cannot be renamed over another one, but the two can change places in one step. File systems
// that cannot do that get the old one out of the way first.
void move_into_place(const fs::path& made, const fs::path& target) {
  if (::rename(made.c_str(), target.c_str()) == 0) return;
  if (errno != ENOTEMPTY && errno != EEXIST) throw_io_error(target, "renaming into place");
  if (::renameat2(AT_FDCWD, made.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0) return;
  std::error_code ignored;
  fs::remove_all(target, ignored);
  if (::rename(made.c_str(), target.c_str()) != 0) throw_io_error(target, "renaming into place");
}

}  // namespace

CheckpointFolder::CheckpointFolder(fs::path folder) : folder_(std::move(folder)) {}

fs::path CheckpointFolder::path_of(int64_t update) const {
  return folder_ / cat(kPrefix, update);
}

void CheckpointFolder::write(int64_t update, const CheckpointContent& content) {
  const fs::path target = path_of(update);
  const fs::path temporary = folder_ / cat(".", kPrefix, update, ".tmp");
  std::error_code ignored;
  fs::remove_all(temporary, ignored);
  try {
    write_files(temporary, content);
  } catch (const Error&) {
    fs::remove_all(temporary, ignored);  // the disk may be full: leave it room to say so
    throw;
  }
  move_into_place(temporary, target);
  sync_folder(folder_);
  fs::remove_all(temporary, ignored);  // the one that was replaced
}

Json CheckpointFolder::read_state(int64_t update) const {
  verify(path_of(update));
  return read_json(path_of(update) / kFiles[2]);
}

void CheckpointFolder::read_tensors(int64_t update, const TensorLists& live) const {
  read_safetensors_into(path_of(update) / kFiles[0], live.model);
  read_safetensors_into(path_of(update) / kFiles[1], live.optimizer);
}

std::optional<std::pair<int64_t, Json>> CheckpointFolder::read_newest_state() const {
  std::vector<int64_t> candidates = updates();
  for (auto update = candidates.rbegin(); update != candidates.rend(); ++update) {
    try {
      return std::pair(*update, read_state(*update));
    } catch (const Error& error) {
      log::warn("checkpoint",
                cat("update-", *update, " is broken and skipped: ", error.where(), ": ", error.problem()));
    }
  }
  if (candidates.empty()) return std::nullopt;
  throw Error(ExitCode::kBadData, folder_.string(), "none of its checkpoints is whole",
              "start a new run in another folder");
}

std::vector<int64_t> CheckpointFolder::updates() const {
  std::vector<int64_t> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_, error)) {
    const std::string name = entry.path().filename().string();
    int64_t update = 0;
    if (!name.starts_with(kPrefix) ||
        !parse_integer(name.substr(std::char_traits<char>::length(kPrefix)), update))
      continue;
    if (entry.is_directory(error)) found.push_back(update);
  }
  std::sort(found.begin(), found.end());
  return found;
}

void CheckpointFolder::prune(int64_t keep, int64_t best) const {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder_, ignored)) {
    if (entry.path().extension() == ".tmp") fs::remove_all(entry.path(), ignored);
  }
  const std::vector<int64_t> all = updates();
  const auto surplus = static_cast<int64_t>(all.size()) - keep;
  for (int64_t i = 0; i < surplus; ++i) {
    if (all[static_cast<size_t>(i)] != best) fs::remove_all(path_of(all[static_cast<size_t>(i)]), ignored);
  }
}

}  // namespace autotrain
