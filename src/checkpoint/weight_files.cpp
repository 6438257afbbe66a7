#include "checkpoint/weight_files.h"

#include <algorithm>
#include <map>
#include <optional>

#include "autotrain/error.h"
#include "base/json.h"
#include "base/text.h"
#include "checkpoint/foreign_weights.h"
#include "checkpoint/update_folders.h"

namespace autotrain {
namespace fs = std::filesystem;
namespace {

using IndexJson = nlohmann::ordered_json;

constexpr const char *kIndexEnding = ".safetensors.index.json", *kFileEnding = ".safetensors",
                     *kWholeFile = "model.safetensors", *kAveraged = "averaged.safetensors",
                     *kWeightMap = "weight_map";

[[noreturn]] void fail_index(const fs::path& index, const std::string& what,
                             const std::string& hint = "download it again, with all files that it names") {
  throw Error(ExitCode::kBadData, index.string(), what, hint);
}

// The files of a folder whose names end so, in order.
std::vector<fs::path> files_that_end(const fs::path& folder, const std::string& ending) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().filename().string().ends_with(ending)) files.push_back(entry.path());
  }
  if (error)
    throw Error(ExitCode::kInputOutput, folder.string(), cat("cannot be read: ", error.message()),
                "check who may read it");
  std::ranges::sort(files);
  return files;
}

// "model-00002-of-00005.safetensors" is the second of five; fewer digits are somebody's own numbers.
struct PartNumber {
  int64_t part = 0, of = 0;
};

std::optional<PartNumber> part_number(const fs::path& file) {
  const std::vector<std::string> words = split(file.stem().string(), '-');
  constexpr size_t kDigits = 5;
  PartNumber number;
  if (words.size() < 3 || words[words.size() - 2] != "of" || words.back().size() < kDigits)
    return std::nullopt;
  if (!parse_integer(words[words.size() - 3], number.part) || !parse_integer(words.back(), number.of))
    return std::nullopt;
  return number.part >= 1 && number.part <= number.of && number.of > 1 ? std::optional(number) : std::nullopt;
}

void refuse_part(const fs::path& file) {
  const auto number = part_number(file);
  std::error_code error;
  if (!number || !fs::exists(file, error)) return;
  const fs::path folder = file.parent_path();
  const auto indexes = files_that_end(folder.empty() ? "." : folder, kIndexEnding);
  throw Error(ExitCode::kBadData, file.string(),
              cat("is part ", number->part, " of ", number->of,
                  " of a model, and holds that part of its weights alone"),
              indexes.empty() ? cat("put all ", number->of, " into one folder with their ", kWholeFile,
                                    ".index.json, and name that")
                              : cat("name ", indexes.front().string(), ", which says what each part holds"));
}

std::string names_of_files(const std::vector<fs::path>& files) {
  std::vector<std::string> names;
  for (const fs::path& file : files) names.push_back(file.filename().string());
  return some_of(names);
}

// A run's folder holds weights for each of its checkpoints.
void refuse_run(const fs::path& folder) {
  for (const fs::path& checkpoints : {folder / "checkpoints", folder}) {
    const std::vector<int64_t> updates = updates_in(checkpoints);
    if (updates.empty()) continue;
    throw Error(ExitCode::kMissingFile, folder.string(),
                "is a folder of checkpoints, each of which has weights of its own",
                cat("name one of them, as ", (checkpoints / name_of_update(updates.back())).string()));
  }
}

[[noreturn]] void fail_empty(const fs::path& folder) {
  refuse_run(folder);
  for (const char* const ending : {".bin.index.json", "model.bin", "model.pt", ""}) {
    for (const fs::path& file : files_that_end(folder, ending))
      if (is_called_foreign(file)) refuse_foreign_weights(file);
  }
  throw Error(ExitCode::kMissingFile, folder.string(), "is a folder that holds no weights",
              cat("name a safetensors file, or the folder of one or of a ", kWholeFile, ".index.json"));
}

fs::path found_in(const fs::path& folder) {
  const auto indexes = files_that_end(folder, kIndexEnding), files = files_that_end(folder, kFileEnding);
  const auto whole = std::ranges::find(files, folder / kWholeFile);
  std::vector<fs::path> candidates = indexes;
  if (whole != files.end()) candidates.push_back(*whole);
  const auto averaged = std::ranges::find(files, folder / kAveraged);  // of a checkpoint
  if (averaged != files.end()) candidates.push_back(*averaged);
  if (candidates.empty()) candidates = files;
  if (candidates.empty()) fail_empty(folder);
  refuse_part(candidates.front());
  if (candidates.size() == 1) return candidates.front();
  throw Error(ExitCode::kBadData, folder.string(),
              cat("is a folder that holds weights several times: ", names_of_files(candidates)),
              "name one of these files in its place");
}

// The map, in which no name may stand twice: of two a reader of JSON keeps one.
std::map<std::string, IndexJson> weight_map_of(const fs::path& index) {
  std::set<std::string> names;
  std::string section, twice;
  const auto note = [&](int depth, IndexJson::parse_event_t event, IndexJson& parsed) {
    if (event != IndexJson::parse_event_t::key) return true;
    const auto name = parsed.get<std::string>();
    if (depth == 1) section = name;
    if (depth == 2 && section == kWeightMap && !names.insert(name).second) twice = name;
    return true;
  };
  const IndexJson json = IndexJson::parse(read_file(index), note, /*allow_exceptions=*/false);
  if (!json.is_object()) fail_index(index, "is no JSON object");
  const IndexJson& map = part_in(json, kWeightMap);
  if (!map.is_object() || map.empty()) {
    fail_index(index, cat("names no files: it has no ", quote(kWeightMap)),
               cat("name the ", kWholeFile, ".index.json of a model, or a safetensors file"));
  }
  if (!twice.empty()) fail_index(index, cat("names tensor ", quote(twice), " twice"));
  return map.get<std::map<std::string, IndexJson>>();
}

// The file that a tensor is in, which lies in the folder of the index or below it.
fs::path checked_file(const fs::path& index, const std::string& tensor, const IndexJson& named) {
  if (!named.is_string()) fail_index(index, cat("has no name of a file for tensor ", quote(tensor)));
  const auto text = named.get<std::string>();
  const fs::path file = fs::path(text).lexically_normal();
  const bool leaves = file.is_absolute() || file.begin() == file.end() || *file.begin() == "..";
  if (leaves || text.find('\0') != std::string::npos) {
    fail_index(index, cat("has tensor ", quote(tensor), " in ", quote(text), ", which is not in its folder"),
               "put the files of a model into one folder, and their names alone into its index");
  }
  if (file.extension() != kFileEnding) {
    fail_index(index,
               cat("has tensor ", quote(tensor), " in ", quote(text), ", which is no safetensors file"),
               "name the index of the model's safetensors files");
  }
  return index.parent_path() / file;
}

void check_there(const fs::path& index, const std::vector<WeightShard>& shards) {
  for (const WeightShard& shard : shards) {
    std::error_code error;
    if (fs::exists(shard.path, error)) continue;
    throw Error(ExitCode::kMissingFile, shard.path.string(),
                cat("is not there, and ", index.filename().string(), " says that it holds ",
                    some_of({shard.names.begin(), shard.names.end()})),
                cat("put all ", shards.size(), " files of the model beside its index"));
  }
}

}  // namespace

bool is_weight_index(const fs::path& file) {
  return file.extension() == ".json";
}

fs::path weights_named(const fs::path& path) {
  std::error_code error;
  fs::path file = fs::is_directory(path, error) ? found_in(path) : path;
  refuse_part(file);
  refuse_foreign_weights(file);
  return file;
}

std::vector<WeightShard> read_weight_index(const fs::path& index) {
  std::map<fs::path, WeightShard> shards;
  for (const auto& [tensor, named] : weight_map_of(index)) {
    const fs::path file = checked_file(index, tensor, named);
    WeightShard& shard = shards[file];
    shard.path = file;
    shard.names.insert(tensor);
  }
  std::vector<WeightShard> all;
  for (auto& [path, shard] : shards) all.push_back(std::move(shard));
  check_there(index, all);
  return all;
}

}  // namespace autotrain
