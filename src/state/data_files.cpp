#include "state/data_files.h"

#include <string_view>

#include "base/text.h"
#include "checkpoint/weight_files.h"
#include "data/fingerprint.h"

namespace autotrain {
namespace {

constexpr std::string_view kFile = "file of the data: ";

}  // namespace

std::string fact_of_file(const std::string& path) {
  return cat(kFile, path);
}

std::string file_of_fact(const std::string& fact) {
  return fact.starts_with(kFile) ? fact.substr(kFile.size()) : "";
}

Identity files_in(const Identity& identity) {
  Identity files;
  for (const auto& [fact, value] : identity)
    if (!file_of_fact(fact).empty()) files.emplace(fact, value);
  return files;
}

std::string fingerprint_of_weights(const std::filesystem::path& named) {
  const std::filesystem::path file = weights_named(named);
  std::string all = fingerprint_of(file);
  if (!is_weight_index(file)) return all;
  for (const WeightShard& shard : read_weight_index(file)) all += "; " + fingerprint_of(shard.path);
  return all;
}

}  // namespace autotrain
