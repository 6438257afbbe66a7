#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "autotrain/recipe.h"
#include "base/enum_names.h"

namespace autotrain {

/// Runs that go on from one checkpoint with another batch.
struct Branch {
  std::string label = {};  ///< "E512"
  double factor = 1;       ///< of the run's effective batch
  int64_t effective = 0;
  Recipe recipe = {};  ///< rescaled; stops and schedules as the run's
};

struct BranchRequest {
  Recipe recipe = {};                ///< of the run
  int64_t effective = 0;             ///< that it was made with
  int64_t micro_batch = 0;           ///< likewise
  double lr = 0;                     ///< in use at that, before the schedule
  int64_t dataset_size = 0;          ///< samples in an epoch
  int64_t start = 0;                 ///< samples of the stream that the checkpoint is at
  std::vector<double> factors = {};  ///< 1 is added where it is missing
  int64_t samples = 0;               ///< of each branch; 0: kBranchUpdates updates of the largest batch
};

inline constexpr int64_t kBranchUpdates = 32;

/// The branches in the order of their batches, and how many samples each trains on: a multiple of every
/// batch.
struct BranchPlan {
  std::vector<Branch> branches = {};
  int64_t samples = 0;
  int64_t compared = 0;  ///< the last of them, whose losses are compared: a quarter
};

/// @throws Error(kUsage) when a factor gives no whole batch or more than the data set, or the run's schedule
/// ends before the branches do.
BranchPlan plan_branches(const BranchRequest& request);

/// The mean training loss of the samples from `from` on, each as it was when it was seen.
/// @throws Error(kMissingFile).
double smoothed_loss(const std::filesystem::path& metrics, int64_t from);

/// What one branch came to with each seed.
struct BranchLosses {
  double factor = 1;
  int64_t effective = 0;
  std::vector<double> training = {};  ///< smoothed loss of each seed, in their order; NaN: its run failed
  int64_t diverged = 0;               ///< of those that failed

  int64_t failed() const;
};

enum class BranchStanding {
  kReference,     ///< the run's own batch
  kBetter,        ///< its loss is below the reference's by more than the margin
  kNotWorse,      ///< its loss is not above the reference's by the margin
  kWorse,         ///< its loss is above the reference's
  kUndetermined,  ///< nothing of this can be said with these seeds
};

constexpr auto enum_names(BranchStanding) {
  return std::array{EnumName<BranchStanding>{BranchStanding::kReference, "reference"},
                    EnumName<BranchStanding>{BranchStanding::kBetter, "better"},
                    EnumName<BranchStanding>{BranchStanding::kNotWorse, "not_worse"},
                    EnumName<BranchStanding>{BranchStanding::kWorse, "worse"},
                    EnumName<BranchStanding>{BranchStanding::kUndetermined, "undetermined"}};
}

struct BranchVerdict {
  BranchLosses losses = {};
  double difference = 0;  ///< branch − reference, mean over the seeds that both have

  /// One-sided t tests of these differences: against "worse by the margin or more", against "no worse at
  /// all", against "better by the margin or more". NaN: too few seeds for a test, or the reference.
  double p_not_worse = std::numeric_limits<double>::quiet_NaN();
  double p_worse = std::numeric_limits<double>::quiet_NaN();
  double p_no_better = std::numeric_limits<double>::quiet_NaN();
  BranchStanding verdict = BranchStanding::kUndetermined;

  /// Whether it is shown to be worse, or no better, than the reference.
  bool shows_no_gain() const;
};

/// How large the batch may be by measurement (Merrill et al. 2025, arXiv:2505.23971).
struct Verification {
  int64_t update = 0;   ///< of the checkpoint
  int64_t samples = 0;  ///< of each branch
  int64_t seeds = 0;
  double margin = 0;  ///< of the loss, as a part of the reference's
  std::vector<BranchVerdict> branches = {};
  int64_t critical =
      0;  ///< largest batch that is not worse, nor is any between it and the reference; 0: all failed
  bool at_edge = false;  ///< it is the largest that was tried
  bool exceeded =
      false;  ///< a smaller branch is better than the reference: the critical batch lies below that
  std::filesystem::path folder = {};
};

inline constexpr double kVerificationLevel = 0.05;

/// Judges branches in the order of their batches, one with factor 1, by the differences of runs with one
/// seed, which have the same samples in the same order. A branch of which a run diverged is worse; of one of
/// which a run failed otherwise nothing is known. From the
/// reference upwards the tests are a fixed sequence that ends at the first batch that is not shown to be "not
/// worse", so that they need no correction for their number.
void judge_branches(Verification& verification, const std::vector<BranchLosses>& losses);

/// What came out, in a sentence each. @param predicted the noise scale in samples; nothing: unknown.
std::vector<std::string> sentences_of(const Verification& verification, std::optional<double> predicted);

nlohmann::ordered_json verification_to_json(const Verification& verification);

}  // namespace autotrain
