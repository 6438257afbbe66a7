#include "recipe/checks.h"

#include "base/text.h"
#include "recipe/reader.h"

namespace autotrain {
namespace {

void check_stop(const Recipe& r) {
  const StopRecipe& stop = r.stop;
  const bool any = stop.epochs || stop.updates || stop.samples || stop.minutes;
  if (!any) {
    fail_recipe(r, "stop", "says nothing about when the run ends",
                "set stop.epochs, stop.updates, stop.samples or stop.minutes");
  }
  if (stop.patience && r.evaluation.every.unit == Interval::Unit::kNever) {
    fail_recipe(r, "stop.patience", "waits for evaluations, and evaluation.every is never",
                "set evaluation.every, or leave patience out");
  }
}

void check_memory(const Recipe& r) {
  const MemoryRecipe& memory = r.execution.memory;
  if (memory.target_low < memory.target_high) return;
  fail_recipe(r, "execution.memory.target",
              cat("[", shortest(memory.target_low), ", ", shortest(memory.target_high),
                  "] is not a band: the first must be smaller"),
              "for example [0.80, 0.90]");
}

void check_batch(const Recipe& r) {
  if (!r.execution.micro_batch || !r.batch.effective) return;
  if (*r.execution.micro_batch <= *r.batch.effective) return;
  fail_recipe(
      r, "execution.micro_batch",
      cat(*r.execution.micro_batch, " is more than all ", *r.batch.effective, " samples of an update"),
      cat("set it to at most batch.effective, or raise batch.effective"));
}

void check_trace(const Recipe& r) {
  const auto& trace = r.execution.trace;
  if (!trace || trace->at(0) <= trace->at(1)) return;
  fail_recipe(r, "execution.trace", cat("[", trace->at(0), ", ", trace->at(1), "] ends before it begins"),
              "for example [100, 120]");
}

void check_augment(const Recipe& r) {
  const std::optional<AreaShare>& share = r.data.augment.random_resized_crop;
  if (!share || share->least <= share->most) return;
  fail_recipe(r, "data.augment.random_resized_crop",
              cat("[", shortest(share->least), ", ", shortest(share->most),
                  "] is no range: the first must not be larger"),
              "for example [0.08, 1]");
}

}  // namespace

void check_recipe(const Recipe& recipe) {
  check_stop(recipe);
  check_memory(recipe);
  check_batch(recipe);
  check_trace(recipe);
  check_augment(recipe);
}

}  // namespace autotrain
