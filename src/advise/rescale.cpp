#include "advise/rescale.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/text.h"
#include "base/units.h"
#include "optim/lr_rules.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "recipe/compare.h"
#include "state/catalog.h"

namespace autotrain {
namespace {

constexpr double kLargestBeta = 0.999999;  // that recipes allow

bool has_key(const ChoiceSpec& row, const std::string& name) {
  return std::ranges::count(row.keys, name, &KeySpec::name) > 0;
}

// Whether it divides by the root of a running mean of squared gradients.
bool is_adam_like(const ChoiceSpec& row) {
  return has_key(row, "beta2") && has_key(row, "epsilon");
}

// Ten digits: a value that people read, and far finer than what the rules are good for.
double rounded(double value) {
  double read = value;
  return parse_real(brief(value, 10), read) ? read : value;
}

const LrRule& founded_rule(const Recipe& recipe) {
  return lr_rule_for(find_optimizer(recipe.optimizer.algorithm.name).adaptive ? LrRule::For::kAdaptive
                                                                              : LrRule::For::kPlain);
}

void rescale_rate(Recipe& recipe, const Rescaling& change) {
  const std::string& founded = founded_rule(recipe).spec.name;
  if (recipe.batch.lr_rule == founded) return;  // which sees the effective batch
  recipe.batch.lr_rule = founded;
  recipe.optimizer.lr = rounded(change.lr);
  recipe.optimizer.reference_batch = change.from;
}

void rescale_moments(Recipe& recipe, double ratio) {
  const ChoiceSpec& row = find_optimizer(recipe.optimizer.algorithm.name).spec;
  if (!is_adam_like(row)) return;
  Choice& algorithm = recipe.optimizer.algorithm;
  const Parameters given(algorithm, row);
  const double beta2 = std::min(kLargestBeta, rounded(std::pow(given.real("beta2"), ratio)));
  const double epsilon = std::min(1.0, rounded(given.real("epsilon") / std::sqrt(ratio)));
  algorithm.parameters["beta2"] = beta2;
  algorithm.parameters["epsilon"] = epsilon;
}

void rescale_clock(Recipe& recipe, const Rescaling& change) {
  const double ratio = static_cast<double>(change.to) / static_cast<double>(change.from);
  Span& warmup = recipe.schedule.warmup;
  if (warmup.unit == Span::Unit::kUpdates && warmup.count > 0)
    warmup = {Span::Unit::kSamples, warmup.count * static_cast<double>(change.from)};
  const ChoiceSpec& shape = find_schedule(recipe.schedule.shape.name).spec;
  if (has_key(shape, "every")) {
    const auto every = static_cast<double>(Parameters(recipe.schedule.shape, shape).integer("every"));
    recipe.schedule.shape.parameters["every"] = std::max<int64_t>(1, std::llround(every / ratio));
  }
  if (!recipe.stop.updates) return;
  const int64_t samples = counted_product(*recipe.stop.updates, change.from);
  recipe.stop.samples = std::min(recipe.stop.samples.value_or(samples), samples);
  recipe.stop.updates.reset();
}

std::string reason_of(const std::string& path, const Recipe& recipe, const Rescaling& change) {
  const std::string at = cat("of the ", change.from, " samples that it was used at");
  const LrRule& founded = founded_rule(recipe);
  const std::string source =
      founded.optimizers == LrRule::For::kAdaptive ? "arXiv:2205.10287" : "arXiv:1706.02677";
  const double half_life = second_moment_half_life(recipe, change.from);
  const std::map<std::string, std::string> reasons = {
      {"batch.effective", "samples per update"},
      {"batch.lr_rule", cat("the founded one for ", recipe.optimizer.algorithm.name, " (", source, ")")},
      {"optimizer.lr", "the rate " + at},
      {"optimizer.reference_batch", "that the rate is of"},
      {"optimizer.beta2",
       cat("its half-life stays ", format_count(std::llround(half_life)), " samples (arXiv:2507.07101)")},
      {"optimizer.epsilon", "÷ √κ, beside a second moment of less or more noise (arXiv:2205.10287)"},
      {"schedule.warmup", "the same samples"},
      {"schedule.every", "the same samples, in updates"},
      {"execution.micro_batch", "the old one is more than an update has"},
      {"batch.limits.max_effective", "no less than an update has"},
      {"stop.updates", "an update is of other samples now"},
      {"stop.samples", "as many as before; the table says how many are needed"}};
  const auto reason = reasons.find(path);
  return reason == reasons.end() ? "" : reason->second;
}

std::string samples_text(double samples) {
  return format_count(std::llround(samples)) + " samples";
}

}  // namespace

Recipe rescaled(const Recipe& recipe, const Rescaling& change) {
  Recipe other = recipe;
  other.batch.effective = change.to;
  if (change.to == change.from) return other;
  if (other.execution.micro_batch > change.to) other.execution.micro_batch.reset();
  auto& most = other.batch.limits.max_effective;
  if (most && *most < change.to) most = change.to;
  rescale_rate(other, change);
  rescale_moments(other, static_cast<double>(change.to) / static_cast<double>(change.from));
  rescale_clock(other, change);
  return other;
}

std::vector<RecipeLine> recipe_lines(const Recipe& recipe, const Rescaling& change) {
  Recipe before = recipe;
  before.batch.effective = change.from;  // where it was found
  std::vector<RecipeLine> lines;
  for (const KeyDifference& key : differing_keys(before, rescaled(recipe, change), catalog()))
    lines.push_back({key.path, key.before, key.after, reason_of(key.path, recipe, change)});
  return lines;
}

std::string yaml_of(const std::vector<RecipeLine>& lines) {
  std::map<std::string, std::string> sections;  // by name: their keys
  for (const RecipeLine& line : lines) {
    const size_t dot = line.path.find('.');
    const std::string below = line.path.substr(dot + 1), key = last_part(below);
    const std::string entry = cat(key, ": ", line.after);
    sections[line.path.substr(0, dot)] +=
        cat("  ", key == below ? entry : cat(below.substr(0, below.rfind('.')), ": {", entry, "}"), "  # ",
            line.before, " → ", line.after, line.reason.empty() ? "" : ": " + line.reason, "\n");
  }
  std::string text;
  for (const auto& [name, keys] : sections) text += cat(name, ":\n", keys);
  return text;
}

std::vector<std::string> remarks_on(const Recipe& recipe, const Rescaling& change) {
  std::vector<std::string> remarks;
  const double ratio = static_cast<double>(change.to) / static_cast<double>(change.from);
  const LrRule& rule = founded_rule(recipe);
  remarks.push_back(cat("the learning rate in use goes from ", brief(change.lr), " to ",
                        brief(change.lr * rule.factor(ratio)), ": ",
                        recipe.batch.lr_rule == rule.spec.name
                            ? cat("batch.lr_rule: ", rule.spec.name,
                                  " does it, so optimizer.lr and reference_batch stay as they are")
                            : "the lines for the recipe have it"));
  if (recipe.average.half_life)
    remarks.push_back(cat("average.half_life stays: it is counted in samples, ",
                          samples_text(static_cast<double>(*recipe.average.half_life)),
                          " (arXiv:2307.13813)"));
  if (recipe.schedule.warmup.count > 0 && recipe.schedule.warmup.unit != Span::Unit::kUpdates)
    remarks.push_back(
        cat("schedule.warmup stays ", recipe.schedule.warmup.text(), ": the same samples at any batch"));
  const ChoiceSpec& row = find_optimizer(recipe.optimizer.algorithm.name).spec;
  if (!is_adam_like(row)) return remarks;
  const double beta2 = Parameters(recipe.optimizer.algorithm, row).real("beta2");
  if (std::pow(beta2, ratio) > kLargestBeta)
    remarks.push_back(cat("beta2 would come to more than ", kLargestBeta,
                          ", which recipes do not allow: its half-life gets shorter"));
  return remarks;
}

double second_moment_half_life(const Recipe& recipe, int64_t effective) {
  const ChoiceSpec& row = find_optimizer(recipe.optimizer.algorithm.name).spec;
  if (!is_adam_like(row)) return 0;
  const double beta2 = Parameters(recipe.optimizer.algorithm, row).real("beta2");
  return beta2 > 0 ? static_cast<double>(effective) * std::log(0.5) / std::log(beta2) : 0;
}

}  // namespace autotrain
