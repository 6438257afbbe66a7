#include "plan/plan_cache.h"

#include <cstdlib>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/json.h"
#include "base/random.h"
#include "base/text.h"
#include "plan/plan_json.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::optional<PlanCache> PlanCache::of_user() {
  if (!environment("CI").empty()) return std::nullopt;
  const std::string cache = environment("XDG_CACHE_HOME");
  if (fs::path(cache).is_absolute()) return PlanCache(fs::path(cache) / "autotrain" / "plans");
  const std::string home = environment("HOME");
  if (home.empty()) return std::nullopt;
  return PlanCache(fs::path(home) / ".cache" / "autotrain" / "plans");
}

fs::path PlanCache::path_of(const std::string& key) const {
  uint64_t hash = 0;
  for (const char c : key) hash = mix(hash ^ static_cast<unsigned char>(c));
  return folder_ / (std::to_string(hash) + ".json");
}

std::optional<SearchResult> PlanCache::find(const std::string& key) const {
  const fs::path path = path_of(key);
  std::error_code error;
  if (!fs::exists(path, error)) return std::nullopt;
  try {
    const auto entry = nlohmann::ordered_json::parse(read_file(path));
    if (read_exact_text(entry.at("key")) != key) return std::nullopt;  // another key of the same hash
    return plan_from_json(entry.at("plan")).search;
  } catch (const std::exception& problem) {
    log::warn("plan",
              cat("ignored a damaged entry of the plan cache, ", path.string(), ": ", problem.what()));
    return std::nullopt;
  }
}

void PlanCache::store(const std::string& key, const BatchPlan& plan) const {
  try {
    make_folders(folder_);
    const nlohmann::ordered_json entry = {{"key", exact_text(key)}, {"plan", plan_to_json(plan)}};
    write_file_atomically(path_of(key), text_of_json(entry, 1));
  } catch (const Error& error) {
    log::warn("plan", cat("the plan was not kept: ", first_line(error.what()),
                          ". Try: XDG_CACHE_HOME=FOLDER, or execution.search.plan_cache: false"));
  }
}

}  // namespace autotrain
