#include "recipe/checks.h"

#include <algorithm>

#include "base/text.h"
#include "recipe/names_elsewhere.h"
#include "recipe/reader.h"
#include "recipe/sections.h"

namespace autotrain {
namespace {

std::string path_of(const Section& section, const std::string& key) {
  return section.path.empty() ? key : section.path + "." + key;
}

std::string suggestion(const std::string& given, const std::vector<std::string>& known) {
  const std::string near = near_name(given, known);
  return near.empty() ? "one of " + join_choices(known) : "did you mean " + quote(near) + "?";
}

void check_value(const Recipe& r, const std::string& path, const KeySpec& key, const Value& value) {
  if (allows(key, value)) return;
  fail_recipe(r, path, cat(yaml_text(value), " is not ", allowed_text(key)));
}

void check_choice(const Recipe& r, const Section& section, const Choice& choice) {
  const ChoiceSpec* const row = find_row(*section.rows, choice.name);
  if (row == nullptr) {
    fail_recipe(r, path_of(section, section.choice_key),
                cat(quote(choice.name), " is not a name that there is"),
                suggestion(choice.name, names_of(*section.rows)));
  }
  std::vector<std::string> known;
  for (const KeySpec& key : row->keys) {
    known.push_back(key.name);
    check_value(r, path_of(section, key.name), key, parameter_or_default(choice, key));
  }
  for (const auto& [key, value] : choice.parameters) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    fail_recipe(r, path_of(section, key), "is not a key of " + choice.name,
                known.empty() ? choice.name + " has none" : suggestion(key, known));
  }
}

void check_keys(const Recipe& r, const Catalog& catalog) {
  Recipe copy = r;  // declarations are bound to a recipe that may be written
  for (const Section& section : sections_of(copy, catalog)) {
    for (const Field& field : section.fields) {
      check_value(r, path_of(section, field.spec.name), field.spec, field.get());
    }
    if (section.rows == nullptr) continue;
    if (const Choice* const choice = section.choice()) check_choice(r, section, *choice);
  }
}

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

// What follows evaluations needs some, at moments that are the same in every run.
void check_followed(const Recipe& r, const char* key, const std::string& by, const char* what) {
  const Interval::Unit unit = r.evaluation.every.unit;
  if (unit == Interval::Unit::kNever) {
    fail_recipe(r, key, by + " follows evaluations, and evaluation.every is never",
                cat("set evaluation.every, or let ", what, " follow something else"));
  }
  if (unit == Interval::Unit::kMinutes) {
    fail_recipe(r, "evaluation.every",
                cat("is counted by the clock, and ", what, " of ", by, " would follow it"),
                "give it in epochs, updates or samples");
  }
}

void check_schedule(const Recipe& r, const Catalog& catalog) {
  const ChoiceSpec& row = *find_row(catalog.schedules, r.schedule.shape.name);
  if (row.rises && r.schedule.warmup.count > 0) {
    fail_recipe(r, "schedule.warmup", row.name + " has a rise of its own",
                "leave warmup out and set schedule.rise");
  }
  if (row.follows_evaluations)
    check_followed(r, "schedule.name", "schedule " + row.name, "the learning rate");
}

// Fewer bytes than a page of memory were never meant as bytes.
void check_budget(const Recipe& r, const std::string& key, const Budget& budget) {
  if (budget.kind != Budget::Kind::kBytes || budget.bytes >= 4096) return;
  fail_recipe(r, key, cat(budget.bytes, " is a number of bytes, and nothing fits in so few"),
              cat("give a unit, such as ", budget.bytes, "MiB"));
}

void check_budgets(const Recipe& r) {
  const std::string key = "execution.memory.budget";
  const DeviceBudgets& budget = r.execution.memory.budget;
  check_budget(r, key, budget.any);
  if (budget.cpu) check_budget(r, key + ".cpu", *budget.cpu);
  if (budget.cuda) check_budget(r, key + ".cuda", *budget.cuda);
}

void check_memory(const Recipe& r) {
  const MemoryRecipe& memory = r.execution.memory;
  if (memory.target_low < memory.target_high) return;
  fail_recipe(r, "execution.memory.target",
              cat("[", shortest(memory.target_low), ", ", shortest(memory.target_high),
                  "] is not a band: the first must be smaller"),
              "for example [0.80, 0.90]");
}

std::string stage_path(size_t i) {
  return cat("batch.schedule[", i, "]");
}

// Before single values are checked: what is missing stands nowhere.
void check_stages_whole(const Recipe& r) {
  for (size_t i = 0; i < r.batch.schedule.stages.size(); ++i) {
    if (r.batch.schedule.stages[i].effective) continue;
    fail_recipe(r, stage_path(i), "does not say how many samples an update has from there on",
                "give effective, such as {samples: 100000, effective: 256}");
  }
}

void check_stages(const Recipe& r) {
  const std::vector<BatchStageRecipe>& stages = r.batch.schedule.stages;
  if (stages.empty()) return;
  if (stages[0].samples != 0) {
    fail_recipe(r, stage_path(0) + ".samples",
                cat("is ", stages[0].samples, ", and nothing says what holds before"),
                "begin the first stage at samples: 0");
  }
  for (size_t i = 1; i < stages.size(); ++i) {
    if (stages[i].samples > stages[i - 1].samples) continue;
    fail_recipe(r, stage_path(i) + ".samples",
                cat(stages[i].samples, " is not after the ", stages[i - 1].samples, " of the stage before"),
                "write stages in the order in which they follow each other");
  }
  if (r.batch.effective) {
    fail_recipe(r, "batch.effective",
                "stands beside batch.schedule, which says how many samples updates have",
                "leave one of them out");
  }
}

// Where `key` derives other batches from batch.effective, within bounds.
void check_derived_batch(const Recipe& r, const std::string& key) {
  if (!r.batch.effective)
    fail_recipe(r, key, "begins with batch.effective, and that is auto", "give batch.effective a number");
  const int64_t first = *r.batch.effective;
  const auto refuse = [&](const char* bound, int64_t limit, const char* direction) {
    fail_recipe(r, cat("batch.limits.", bound),
                cat(limit, " leaves out batch.effective, ", first, ", with which the run begins"),
                cat("set it to ", first, " or ", direction));
  };
  const BatchLimitsRecipe& limits = r.batch.limits;
  if (limits.min_effective > first) refuse("min_effective", *limits.min_effective, "less");
  if (limits.max_effective && *limits.max_effective < first)
    refuse("max_effective", *limits.max_effective, "more");
}

void check_batch_rules(const Recipe& r, const Catalog& catalog) {
  const BatchRecipe& b = r.batch;
  const bool by_rule = b.schedule.rule != BatchRule::kNone;
  const bool scheduled = !b.schedule.stages.empty() || by_rule;
  if (b.limits.min_effective && !b.adapts())
    fail_recipe(r, "batch.limits.min_effective", "bounds batch.adapt, and there is none",
                "set batch.adapt: noise, or leave it out");
  if (scheduled && b.adapts())
    fail_recipe(r, "batch.adapt.rule",
                "stands beside batch.schedule, which says how many samples updates have",
                "leave one of them out");
  if (by_rule) {
    check_derived_batch(r, "batch.schedule.rule");
    const ChoiceSpec& row = *find_row(catalog.schedules, r.schedule.shape.name);
    if (!row.only_falls)
      fail_recipe(
          r, "batch.schedule.rule", cat("cannot tell where schedule ", row.name, " halves the rate"),
          "take a schedule that falls, such as cosine, linear or step, or give batch.schedule as a list");
  }
  if (!b.adapts()) return;
  check_derived_batch(r, "batch.adapt.rule");
  check_followed(r, "batch.adapt.rule", "batch.adapt", "the batch");
  if (r.execution.statistics == Statistics::kOff)
    fail_recipe(r, "execution.statistics", "is off, and batch.adapt follows the noise of gradients",
                "set it to auto, or leave batch.adapt out");
}

// The most samples that an update is known to have; nothing where they are auto without a limit, or data
// decide.
std::optional<int64_t> largest_known_batch(const BatchRecipe& b) {
  if (b.schedule.rule != BatchRule::kNone || b.adapts()) return b.limits.max_effective;
  if (!b.effective && b.schedule.stages.empty()) return b.limits.max_effective;
  std::optional<int64_t> most = b.effective;
  for (const BatchStageRecipe& stage : b.schedule.stages) most = std::max(most, stage.effective);
  return most;
}

void check_largest_batch(const Recipe& r) {
  const std::optional<int64_t> limit = r.batch.limits.max_effective, most = largest_known_batch(r.batch);
  if (!limit || !most || *most <= *limit) return;
  fail_recipe(r, "batch.limits.max_effective",
              cat(*limit, " is less than ",
                  r.batch.effective ? "batch.effective, " : "a stage of batch.schedule, ", *most),
              "lower that, or leave max_effective out, which bounds the batches that the program chooses");
}

void check_micro_batch(const Recipe& r) {
  if (!r.execution.micro_batch) return;
  const int64_t typed = *r.execution.micro_batch;
  const std::optional<int64_t> most = largest_known_batch(r.batch), limit = r.batch.limits.max_micro_batch;
  const std::string key = "execution.micro_batch";
  if (most && typed > *most) {
    const bool by_limit = most == r.batch.limits.max_effective && most != r.batch.effective;
    const char* const bound = by_limit ? "batch.limits.max_effective" : "batch.effective";
    fail_recipe(r, key, cat(typed, " is more than all ", *most, " samples of an update"),
                cat("set it to at most ", bound, ", or raise ", bound));
  }
  if (limit && typed > *limit) {
    fail_recipe(
        r, key, cat(typed, " is more than batch.limits.max_micro_batch, ", *limit),
        "lower it, or leave max_micro_batch out, which bounds the search of a micro-batch that is auto");
  }
}

void check_groups(const Recipe& r) {
  for (size_t i = 0; i < r.optimizer.groups.size(); ++i) {
    if (!r.optimizer.groups[i].match.empty()) continue;
    fail_recipe(r, cat("optimizer.groups[", i, "]"), "does not say which parameters it is of",
                "give match, such as match: backbone.*");
  }
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

void check_lora(const Recipe& r) {
  const LoraRecipe& lora = r.lora;
  if (!lora.active() && (lora.rank || lora.alpha || !lora.train.empty())) {
    fail_recipe(r, "model.lora", "says how weights are adapted, and not which",
                "name them in model.lora.match: [\"block*\"], or [\"*\"] for all linear layers");
  }
  if (lora.active() && !r.freeze.empty()) {
    fail_recipe(r, "model.freeze", "has nothing to freeze: beside model.lora all of the model stays as it is",
                "leave it out; model.lora.train names what learns beside the adapters");
  }
}

void check_weights(const Recipe& r) {
  const WeightsRecipe& weights = r.weights;
  const auto refuse = [&](const char* key) {
    fail_recipe(r, cat("model.weights.", key), "says how a file of weights is read, and none is named",
                "name it in model.weights.file, or leave this out to begin with weights that are drawn");
  };
  if (weights.file) return;
  if (!weights.skip.empty()) refuse("skip");
  if (!weights.rename.empty()) refuse("rename");
  if (weights.missing != Unmatched::kFail) refuse("missing");
  if (weights.shapes != Unmatched::kFail) refuse("shapes");
}

}  // namespace

void check_recipe(const Recipe& recipe, const Catalog& catalog) {
  check_stages_whole(recipe);
  check_keys(recipe, catalog);
  check_stop(recipe);
  check_schedule(recipe, catalog);
  check_stages(recipe);
  check_batch_rules(recipe, catalog);
  check_budgets(recipe);
  check_memory(recipe);
  check_largest_batch(recipe);
  check_micro_batch(recipe);
  check_groups(recipe);
  check_trace(recipe);
  check_augment(recipe);
  check_lora(recipe);
  check_weights(recipe);
}

}  // namespace autotrain
