#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "recipe/keys.h"

namespace autotrain {

/// The learning rate's factor after warm-up. `update` counts applied updates since warm-up ended, in parts
/// where the effective batch changes; `length` is how many there will be (0 when unknown; rows that need it
/// are never asked then).
using ShapeFunction = std::function<double(double update, double length)>;

struct ScheduleRow {
  ChoiceSpec spec;
  bool needs_length = false;
  std::function<ShapeFunction(const Parameters&)> make;
};

/// Every schedule a recipe can name.
const std::vector<ScheduleRow>& schedule_table();

/// Adds a part of the program's own. To be called before anything refers to a row.
void add_row(ScheduleRow row);

/// @throws Error(kBadRecipe) when there is no such schedule.
const ScheduleRow& find_schedule(const std::string& name);

/// The factor on the learning rate over applied updates, which are its only clock. Where the effective batch
/// changes, the clock is the samples of applied updates, counted in updates of the first stage.
class Schedule {
 public:
  /// @param total_updates  updates of the whole run; unset when only time stops it.
  /// @param effective      samples per update (of the first stage), to count a warm-up given in samples.
  /// @throws Error(kBadRecipe) when the shape or the warm-up needs a length and there is none.
  Schedule(const ScheduleRecipe& recipe, std::optional<int64_t> total_updates, int64_t effective);

  /// For the update after `applied` updates, which counts as `own` of them. Update i of a warm-up of W (from
  /// 0) has (i + 1) ÷ W.
  double factor(double applied, double own = 1) const;

  int64_t warmup_updates() const { return warmup_; }

 private:
  ShapeFunction shape_;
  int64_t warmup_ = 0;
  int64_t length_ = 0;
};

}  // namespace autotrain
