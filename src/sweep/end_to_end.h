#pragma once

#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "autotrain/recipe.h"
#include "base/enum_names.h"
#include "study/study.h"

namespace autotrain {

/// What a batch of inference goes through.
enum class Stage {
  kLoading,  ///< read, decode and put together, by the loader's threads
  kCopying,  ///< to the device, and into the model's precision
  kForward,
  kOutput,  ///< to main memory, as float32
};

constexpr auto enum_names(Stage) {
  using S = Stage;
  return std::array{EnumName<S>{S::kLoading, "loading"}, EnumName<S>{S::kCopying, "copying"},
                    EnumName<S>{S::kForward, "forward"}, EnumName<S>{S::kOutput, "output"}};
}

/// Inference at one batch size from the data set to outputs in main memory, with the loader's threads running
/// ahead.
struct EndToEnd {
  std::string failure = {};       ///< why there are no figures; then the rest is empty
  double samples_per_second = 0;  ///< of the whole; of several rounds the median, as all that follows
  std::optional<double> drift =
      {};                    ///< the largest rate of a round ÷ the smallest, less 1; of one round nothing
  double waiting_share = 0;  ///< of the time, in which the forward pass had no batch

  /// Samples a second of each stage by itself, while no other one runs.
  double loading = 0, copying = 0, forward = 0, output = 0;

  int64_t workers = 0;           ///< threads that load; 0: the one that computes
  int64_t prefetch_batches = 0;  ///< at most, that are ready ahead
  int64_t peak_bytes = 0;        ///< with the batches that are ready ahead

  double rate_of(Stage stage) const;

  /// The slowest stage by itself, and the next one. Precondition: there are figures.
  std::pair<Stage, Stage> slowest() const;

  /// Whether the whole is clearly slower than its slowest stage, so that stages take time from each other.
  bool stages_compete() const;
};

/// Measures it of what the recipe names. For a process of its own.
/// @throws Error(kDoesNotFit) when memory does not suffice; as the data are loaded.
nlohmann::ordered_json measure_end_to_end(const Recipe& recipe, int64_t batch);

/// The rounds of one batch as one; a round that failed makes it a failed one.
EndToEnd summarise_end_to_end(const std::vector<StudyResult>& rounds);

/// What bounds it: "loading bounds it, at …". Precondition: there are figures.
std::string bound_in_words(const EndToEnd& end_to_end);

}  // namespace autotrain
