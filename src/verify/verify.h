#pragma once

#include <array>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "autotrain/recipe.h"
#include "base/enum_names.h"

namespace autotrain {

struct VerifyOptions {
  std::filesystem::path folder = {};  ///< where the runs are kept; must not exist
  int64_t updates = 12;               ///< of each run
  int64_t kills = 4;                  ///< kills −9 in the run that is killed and resumed

  /// How many make the runs of several ranks; 1: there are none. Unset: 2, on a CPU.
  std::optional<int64_t> ranks = {};
};

/// What one comparison with the undisturbed run came to.
struct Verdict {
  enum class Result {
    kSame,        ///< bit for bit
    kRounding,    ///< other micro-batches, equal to rounding
    kAnotherCut,  ///< other micro-batches of the same samples, seen by dropout or batch normalisation
    kDifferent,
    kFailed,
    kNotTried,
  };
  std::string disturbance = {};
  Result result = Result::kNotTried;
  std::string detail = {};

  bool passed() const { return result != Result::kDifferent && result != Result::kFailed; }
};

constexpr auto enum_names(Verdict::Result) {
  using R = Verdict::Result;
  return std::array{
      EnumName<R>{R::kSame, "same bits"},          EnumName<R>{R::kRounding, "same to rounding"},
      EnumName<R>{R::kAnotherCut, "same samples"}, EnumName<R>{R::kDifferent, "DIFFERENT"},
      EnumName<R>{R::kFailed, "FAILED"},           EnumName<R>{R::kNotTried, "not tried"}};
}

/// Proves on a user's own recipe that nothing that happens to a run changes what it computes: a short run,
/// and the same run typed in, killed, stopped, short of memory, short of disk, made by several ranks; final
/// tensors are compared bit for bit. Every run is a process of its own.
///
/// @param on_verdict called after each comparison.
/// @throws Error when not even the undisturbed run works.
std::vector<Verdict> verify(const Recipe& recipe, const VerifyOptions& options,
                            const std::function<void(const Verdict&)>& on_verdict);

}  // namespace autotrain
