#include "study/needed_files.h"

#include <variant>

#include "autotrain/error.h"
#include "base/text.h"
#include "checkpoint/weight_files.h"

namespace autotrain {
namespace fs = std::filesystem;
namespace {

bool are_one(const fs::path& a, const fs::path& b) {
  std::error_code error;
  return fs::equivalent(a, b, error);
}

[[noreturn]] void fail_needed(const fs::path& target, const std::string& what) {
  throw Error(ExitCode::kUsage, target.string(), what, "give another --output");
}

// The file, or the index with its shards. What cannot be read is told by whoever reads it.
std::vector<fs::path> files_of_weights(const std::string& named) {
  try {
    std::vector<fs::path> files = {weights_named(named)};
    if (!is_weight_index(files[0])) return files;
    for (const WeightShard& shard : read_weight_index(files[0])) files.push_back(shard.path);
    return files;
  } catch (const Error&) {
    return {};
  }
}

// What a key says may be the path of a file, or of several.
std::vector<std::string> texts_of(const Value& value) {
  if (const auto* const one = std::get_if<std::string>(&value)) return {*one};
  if (const auto* const several = std::get_if<std::vector<std::string>>(&value)) return *several;
  std::vector<std::string> texts;
  if (const auto* const named = std::get_if<std::map<std::string, std::string>>(&value))
    for (const auto& [name, text] : *named) texts.push_back(text);
  return texts;
}

void check_keys(const Choice& choice, const std::string& section, const fs::path& target) {
  for (const auto& [key, value] : choice.parameters) {
    for (const std::string& path : texts_of(value)) {
      if (are_one(path, target)) fail_needed(target, cat("is what the run reads as ", section, ".", key));
    }
  }
}

bool lies_below(const fs::path& file, const fs::path& folder) {
  for (fs::path above = fs::absolute(file).parent_path(); above != above.root_path();
       above = above.parent_path()) {
    if (are_one(above, folder)) return true;
  }
  return false;
}

}  // namespace

void check_not_needed(const TrainedRun& run, const fs::path& target) {
  std::error_code error;
  if (!fs::exists(target, error)) return;
  const Recipe& recipe = run.recipe;
  if (recipe.weights.file) {
    for (const fs::path& file : files_of_weights(*recipe.weights.file)) {
      if (are_one(file, target))
        fail_needed(target,
                    "holds the weights that this run began with, whose shapes and zeros it may still need");
    }
  }
  check_keys(recipe.model, "model", target);
  check_keys(recipe.data.train, "data.train", target);
  if (recipe.data.validation) check_keys(*recipe.data.validation, "data.validation", target);
  if (recipe.data.test) check_keys(*recipe.data.test, "data.test", target);
  if (lies_below(target, run.folder / "checkpoints"))
    fail_needed(target, "is part of a checkpoint of the run");
}

}  // namespace autotrain
