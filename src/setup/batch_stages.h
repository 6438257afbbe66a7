#pragma once

#include <cstdint>
#include <vector>

#include "autotrain/plan.h"
#include "autotrain/recipe.h"
#include "data/stream.h"

namespace autotrain {

/// From `samples` of applied updates on, an update has `effective` samples.
struct BatchStage {
  int64_t samples = 0;
  int64_t effective = 0;
  bool operator==(const BatchStage&) const = default;
};

/// How many samples an update of a run has, by how many were learned from before it: those of applied updates
/// only, over all ranks. A stage begins with the first update that begins at its sample or beyond. A value.
class BatchStages {
 public:
  /// One stage: the effective batch stays. Implicit, because a number says it.
  BatchStages(int64_t effective) : list_{{0, effective}}, largest_(effective) {}

  /// @param list the first at sample 0, ascending. @param largest that an update may have.
  BatchStages(std::vector<BatchStage> list, int64_t least, int64_t largest)
      : list_(std::move(list)), least_(least), largest_(largest), change_(true) {}

  /// Whether updates may differ in samples. If so, whatever a recipe counts in updates is counted in samples:
  /// as many as so many updates of the first stage have.
  bool change() const { return change_; }

  int64_t at(int64_t samples) const;
  int64_t first() const { return list_.front().effective; }
  int64_t largest() const { return largest_; }
  int64_t least() const { return least_; }  ///< of a batch that adapts
  const std::vector<BatchStage>& list() const { return list_; }

  struct Updates {
    int64_t count = 0;
    int64_t samples = 0;  ///< of all applied updates by then
  };

  /// The whole updates that have room between `samples` and `limit`.
  Updates between(int64_t samples, int64_t limit) const;

 private:
  std::vector<BatchStage> list_;
  int64_t least_ = 0;
  int64_t largest_ = 0;
  bool change_ = false;
};

/// The stages that the recipe gives, or that its rule derives: seesaw (arXiv:2510.14717) doubles the batch
/// where the schedule has come to a half, a quarter, … of the rate. Of a batch that adapts the one it begins
/// with.
/// @param dataset_size samples in an epoch. @param constant samples per update where the recipe lets them
/// stay.
/// @throws Error(kBadRecipe) where a rule has nothing to derive them from.
BatchStages stages_of(const Recipe& recipe, int64_t dataset_size, int64_t constant);

/// The learning rate of updates with so many samples, before schedules: by the recipe's rule, and with seesaw
/// by the rule at the first stage's, times √(effective ÷ first).
double scaled_rate(const Recipe& recipe, const BatchStages& stages, int64_t effective);

/// Refuses stages with more samples than the data set, or with fewer than lanes.
/// @throws Error(kBadRecipe) naming the key.
void check_stages(const Recipe& recipe, const BatchStages& stages, int64_t dataset_size, int64_t lanes);

/// Writes into the plan what it means for the stages.
void describe_stages(const Recipe& recipe, const BatchStages& stages, const Lanes& lanes, BatchPlan& plan);

}  // namespace autotrain
