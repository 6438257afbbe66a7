#include "state/data_files.h"

#include <string_view>

#include "base/text.h"

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

}  // namespace autotrain
