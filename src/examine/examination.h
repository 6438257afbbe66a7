#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "autotrain/error.h"
#include "autotrain/recipe.h"
#include "data/look.h"
#include "examine/sample_sheet.h"

namespace autotrain {

/// One of a recipe's data sets as it was understood.
struct ExaminedSet {
  std::string role = {};  ///< "training", "validation", "test"
  DataLook look = {};
  std::string failure = {};  ///< why it could not be opened or read to its end; "": it could
  ExitCode failure_code = ExitCode::kDone;
  std::optional<SampleSheet> sheet = {};
};

struct Examination {
  std::vector<ExaminedSet> sets = {};
  double seconds = 0;

  /// What would end a run: sets that cannot be read, and doubts at which training stops.
  int64_t faults() const;
  int64_t warnings() const;  ///< kinds of other doubts
};

struct ExaminationOptions {
  int64_t threads = 1;
  int64_t sheet_samples = 0;  ///< images drawn of each set; 0: no sheet

  /// Called by one thread at a time: how many samples of a set were read.
  std::function<void(const std::string& role, int64_t done, int64_t of)> progress = nullptr;
};

/// Reads all data of a recipe, and says what it understood. A set that cannot be read is a failure of its
/// own, and the others are looked at all the same. Builds no model and searches nothing.
/// @throws Error(kBadRecipe) for keys that are wrong.
Examination examine(const Recipe& recipe, const ExaminationOptions& options);

}  // namespace autotrain
