#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "autotrain/error.h"
#include "base/text.h"
#include "base/units.h"

namespace autotrain {
namespace {

double progress(int64_t update, int64_t length) {
  if (length <= 0) return 1;
  return std::clamp(static_cast<double>(update) / static_cast<double>(length), 0.0, 1.0);
}

KeySpec final_factor_key() {
  return real_key("final_factor", "What is left of the learning rate at the end.", 0.0).from(0, 1);
}

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
  return static_cast<int64_t>(std::llround(warmup.count * static_cast<double>(*total)));
}

const ScheduleRow& row_named(const std::string& name) {
  for (const ScheduleRow& row : schedule_table()) {
    if (row.spec.name == name) return row;
  }
  throw Error(ExitCode::kBadRecipe, "schedule.name", "there is no schedule named " + name);
}

}  // namespace

const std::vector<ScheduleRow>& schedule_table() {
  static const std::vector<ScheduleRow> table = {
      {{"constant", "The learning rate stays."},
       false,
       [](const Parameters&) -> ShapeFunction { return [](int64_t, int64_t) { return 1.0; }; }},
      {{"linear", "Falls in a straight line to the end of the run.", {final_factor_key()}},
       true,
       [](const Parameters& p) -> ShapeFunction {
         return [end = p.real("final_factor")](int64_t update, int64_t length) {
           return 1 + (end - 1) * progress(update, length);
         };
       }},
      {{"cosine",
        "Falls along half a cosine to the end of the run (Loshchilov and Hutter 2017).",
        {final_factor_key()}},
       true,
       [](const Parameters& p) -> ShapeFunction {
         return [end = p.real("final_factor")](int64_t update, int64_t length) {
           return end + (1 - end) * (1 + std::cos(std::numbers::pi * progress(update, length))) / 2;
         };
       }},
      {{"step",
        "Multiplied by a factor at fixed intervals.",
        {integer_key("every", "Interval.", 1000).from(1).in("updates"),
         real_key("factor", "Multiplies the rate each time.", 0.1).from(0, 1)}},
       false,
       [](const Parameters& p) -> ShapeFunction {
         return [every = p.integer("every"), factor = p.real("factor")](int64_t update, int64_t) {
           const int64_t times = update / every;
           return std::pow(factor, static_cast<double>(times));
         };
       }}};
  return table;
}

Schedule::Schedule(const ScheduleRecipe& recipe, std::optional<int64_t> total_updates, int64_t effective) {
  const ScheduleRow& row = row_named(recipe.shape.name);
  if (row.needs_length && !total_updates) {
    throw Error(ExitCode::kBadRecipe, "schedule.name",
                row.spec.name + " needs the number of updates, and only stop.minutes is set",
                "set stop.epochs, stop.updates or stop.samples too, or schedule.name: constant");
  }
  shape_ = row.make(Parameters(recipe.shape, row.spec));
  warmup_ = warmup_updates_of(recipe.warmup, total_updates, effective);
  length_ = total_updates ? std::max<int64_t>(0, *total_updates - warmup_) : 0;
}

double Schedule::factor(int64_t applied) const {
  if (applied < warmup_) return static_cast<double>(applied + 1) / static_cast<double>(warmup_);
  return shape_(applied - warmup_, length_);
}

}  // namespace autotrain
