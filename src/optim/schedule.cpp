#include "optim/schedule.h"

#include <algorithm>
#include <cmath>

#include "autotrain/error.h"
#include "base/units.h"

namespace autotrain {
namespace {

int64_t warmup_updates_of(const Span& warmup, std::optional<int64_t> total, int64_t effective) {
  const auto count = static_cast<int64_t>(std::min(warmup.count, 0x1p53));
  switch (warmup.unit) {
    case Span::Unit::kUpdates: return count;
    case Span::Unit::kSamples: return ceil_div(count, effective);
    case Span::Unit::kFraction: break;
  }
  if (warmup.count == 0) return 0;
  if (!total) {
    throw Error(ExitCode::kBadRecipe, "schedule.warmup", "is a part of a run whose length is unknown",
                "give it in updates or samples, or set stop.epochs, stop.updates or stop.samples");
  }
  return nearest_whole(warmup.count * static_cast<double>(*total));
}

}  // namespace

const ScheduleRow& find_schedule(const std::string& name) {
  for (const ScheduleRow& row : schedule_table()) {
    if (row.spec.name == name) return row;
  }
  throw Error(ExitCode::kBadRecipe, "schedule.name", "there is no schedule named " + name);
}

Schedule::Schedule(const ScheduleRecipe& recipe, std::optional<int64_t> total_updates, int64_t effective) {
  const ScheduleRow& row = find_schedule(recipe.shape.name);
  if (row.needs_length && !total_updates) {
    throw Error(ExitCode::kBadRecipe, "schedule.name",
                row.spec.name + " needs the number of updates, and only stop.minutes is set",
                "set stop.epochs, stop.updates or stop.samples too, or schedule.name: constant");
  }
  shape_ = row.make(Parameters(recipe.shape, row.spec));
  warmup_ = warmup_updates_of(recipe.warmup, total_updates, effective);
  length_ = total_updates ? std::max<int64_t>(0, *total_updates - warmup_) : 0;
}

double Schedule::factor(double applied, double own) const {
  const auto warmup = static_cast<double>(warmup_);
  if (applied < warmup) return std::min(1.0, (applied + own) / warmup);
  return shape_(applied - warmup, static_cast<double>(length_));
}

}  // namespace autotrain
