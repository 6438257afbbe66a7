#include "recipe/checks.h"

#include <algorithm>

#include "base/text.h"
#include "recipe/reader.h"
#include "recipe/sections.h"

namespace autotrain {
namespace {

std::string path_of(const Section& section, const std::string& key) {
  return section.path.empty() ? key : section.path + "." + key;
}

std::string suggestion(const std::string& given, const std::vector<std::string>& known) {
  const std::string near = nearest(given, known);
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

void check_schedule(const Recipe& r, const Catalog& catalog) {
  const ChoiceSpec& row = *find_row(catalog.schedules, r.schedule.shape.name);
  if (row.rises && r.schedule.warmup.count > 0) {
    fail_recipe(r, "schedule.warmup", row.name + " has a rise of its own",
                "leave warmup out and set schedule.rise");
  }
  if (!row.follows_evaluations) return;
  // It needs some, at moments that are the same in every run.
  const Interval::Unit unit = r.evaluation.every.unit;
  if (unit == Interval::Unit::kNever) {
    fail_recipe(r, "schedule.name", row.name + " follows evaluations, and evaluation.every is never",
                "set evaluation.every, or take another schedule");
  }
  if (unit == Interval::Unit::kMinutes) {
    fail_recipe(r, "evaluation.every",
                "is counted by the clock, and the learning rate of schedule " + row.name + " would follow it",
                "give it in epochs, updates or samples");
  }
}

// Fewer bytes than a page of memory were never meant as bytes.
void check_budget(const Recipe& r) {
  const Budget& budget = r.execution.memory.budget;
  if (budget.kind != Budget::Kind::kBytes || budget.bytes >= 4096) return;
  fail_recipe(r, "execution.memory.budget",
              cat(budget.bytes, " is a number of bytes, and nothing fits in so few"),
              cat("give a unit, such as ", budget.bytes, "MiB"));
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

}  // namespace

void check_recipe(const Recipe& recipe, const Catalog& catalog) {
  check_keys(recipe, catalog);
  check_stop(recipe);
  check_schedule(recipe, catalog);
  check_budget(recipe);
  check_memory(recipe);
  check_batch(recipe);
  check_groups(recipe);
  check_trace(recipe);
  check_augment(recipe);
  check_lora(recipe);
}

}  // namespace autotrain
