#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "autotrain/plan.h"

namespace autotrain {

/// Plans that were found before, in the user's cache folder. An entry answers only for exactly the key
/// it was stored under; a damaged one is ignored with a warning.
class PlanCache {
 public:
  explicit PlanCache(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// `$XDG_CACHE_HOME/autotrain/plans` if that is absolute, else `~/.cache/autotrain/plans`; nothing when
  /// neither is known, and where `CI` is set, since a measurement must not depend on an earlier one there.
  static std::optional<PlanCache> of_user();

  std::optional<SearchResult> find(const std::string& key) const;

  /// Failing to write is a warning, never an error: a plan does not depend on being kept.
  void store(const std::string& key, const BatchPlan& plan) const;

 private:
  std::filesystem::path path_of(const std::string& key) const;

  std::filesystem::path folder_;
};

}  // namespace autotrain
