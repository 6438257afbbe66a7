#include "advise/verification.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "advise/rescale.h"
#include "autotrain/error.h"
#include "base/json.h"
#include "base/text.h"
#include "base/units.h"
#include "report/metrics_file.h"
#include "report/run_history.h"
#include "study/statistics.h"
#include "trainer/horizon.h"

namespace autotrain {

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

int64_t batch_of(const BranchRequest& request, double factor) {
  const double batch = factor * static_cast<double>(request.effective);
  const auto whole = std::llround(batch);
  if (!(factor > 0) || std::abs(batch - static_cast<double>(whole)) > 1e-9 || whole < 1) {
    throw Error(ExitCode::kUsage, "--factors",
                cat(brief(factor), " × ", request.effective, " is no whole number of samples"),
                "give factors such as 0.5,1,2,4");
  }
  if (whole > request.dataset_size) {
    throw Error(ExitCode::kUsage, "--factors",
                cat(brief(factor), " × ", request.effective, " is more than the ", request.dataset_size,
                    " samples of the data set"),
                "leave that factor out");
  }
  return whole;
}

// @param each of which every batch makes whole updates.
int64_t samples_of_branches(const BranchRequest& request, const std::vector<Branch>& branches, int64_t each) {
  const int64_t wanted = request.samples > 0 ? request.samples : kBranchUpdates * branches.back().effective;
  const std::optional<int64_t> end = samples_to_stop(request.recipe, request.dataset_size, request.effective);
  const int64_t left = end ? *end - request.start : std::numeric_limits<int64_t>::max();
  const int64_t samples = std::min(round_up(wanted, each), left / each * each);
  const int64_t least = request.samples > 0 ? wanted : std::min(wanted, 8 * branches.back().effective);
  if (samples >= least && samples > 0) return samples;
  throw Error(
      ExitCode::kUsage, "--verify",
      cat("the run's schedule has ", std::max<int64_t>(0, left), " samples left after this checkpoint, and ",
          "branches of up to ", branches.back().effective, " samples an update need ", round_up(least, each)),
      "give --checkpoint an earlier one (checkpoint.keep keeps more of them), smaller --factors, or begin "
      "with --config: its short run stops early in the schedule");
}

// What only the run itself needs is off; everything that is learned stays, in micro-batches of the run, so
// that what normalises over them sees the same and the own batch is cut as it was.
Recipe branch_recipe(const BranchRequest& request, int64_t effective) {
  Recipe recipe = rescaled(request.recipe, {request.effective, effective, request.lr});
  recipe.stop.minutes.reset();
  recipe.stop.patience.reset();
  recipe.stop.keep_last = false;
  recipe.execution.micro_batch = std::min(request.micro_batch, effective);
  recipe.execution.trace.reset();
  recipe.execution.telemetry = 0;
  recipe.checkpoint.every = {};
  recipe.checkpoint.keep = 1;
  recipe.report.tensorboard = recipe.report.csv = false;
  return recipe;
}

// Of b > a by more than `margin`, one-sided; NaN where too few values allow no test.
double p_above(const std::vector<double>& a, const std::vector<double>& b, double margin) {
  std::vector<double> shifted = a;
  for (double& value : shifted) value += margin;
  const WelchTest test = welch_test(shifted, b);
  return test.t > 0 ? test.p / 2 : 1 - test.p / 2;
}

BranchVerdict verdict_of(const BranchLosses& reference, const BranchLosses& branch, double margin) {
  BranchVerdict v{.losses = branch,
                  .difference = mean(branch.training) - mean(reference.training),
                  .p_not_worse = 1 - p_above(reference.training, branch.training, margin),
                  .p_worse = p_above(reference.training, branch.training, 0)};
  if (branch.factor == 1) {
    v.verdict = NotWorse::kReference;
  } else if (branch.failed > 0 || v.p_worse < kVerificationLevel) {
    v.verdict = NotWorse::kWorse;
  }
  if (v.verdict == NotWorse::kUndetermined && v.p_not_worse < kVerificationLevel)
    v.verdict = NotWorse::kNotWorse;
  return v;
}

std::string verdict_words(const BranchVerdict& v) {
  switch (v.verdict) {
    case NotWorse::kReference: return "the run's own batch";
    case NotWorse::kNotWorse: return "not worse";
    case NotWorse::kWorse: return "worse";
    case NotWorse::kUndetermined: break;
  }
  return "undetermined with these seeds";
}

}  // namespace

BranchPlan plan_branches(const BranchRequest& request) {
  std::vector<double> factors = request.factors;
  factors.push_back(1);
  std::ranges::sort(factors);
  const auto twice = std::ranges::unique(factors);
  factors.erase(twice.begin(), twice.end());
  BranchPlan plan;
  for (const double factor : factors) {
    const int64_t effective = batch_of(request, factor);
    plan.branches.push_back({cat("E", effective), factor, effective, branch_recipe(request, effective)});
  }
  int64_t each = 1;
  for (const Branch& branch : plan.branches) each = std::lcm(each, branch.effective);
  plan.samples = samples_of_branches(request, plan.branches, each);
  plan.compared = round_up(ceil_div(plan.samples, 4), each);
  const Interval every{Interval::Unit::kSamples, static_cast<double>(ceil_div(plan.samples, 4))};
  for (Branch& branch : plan.branches) branch.recipe.evaluation.every = every;
  return plan;
}

double smoothed_loss(const std::filesystem::path& metrics, int64_t from) {
  const RunHistory history = read_history(metrics);
  const std::vector<double>* const samples = history.updates.find("samples");
  const std::vector<double>* const losses = history.updates.find("loss");
  if (samples == nullptr || losses == nullptr) return kNaN;
  double sum = 0, weight = 0;
  for (size_t i = 1; i < samples->size(); ++i) {
    const double of_update = (*samples)[i] - (*samples)[i - 1];
    if ((*samples)[i] <= static_cast<double>(from)) continue;
    sum += of_update * (*losses)[i];
    weight += of_update;
  }
  return weight > 0 ? sum / weight : losses->back();
}

void judge_branches(Verification& verification, const std::vector<BranchLosses>& losses) {
  const auto reference = std::ranges::find(losses, 1.0, &BranchLosses::factor);
  const double margin = verification.margin * std::abs(mean(reference->training));
  bool goes_on = !reference->training.empty();
  for (const BranchLosses& branch : losses) {
    const BranchVerdict v = verdict_of(*reference, branch, margin);
    if (branch.factor >= 1) {
      goes_on &= v.verdict == NotWorse::kReference || v.verdict == NotWorse::kNotWorse;
      if (goes_on) verification.critical = branch.effective;
    }
    verification.branches.push_back(v);
  }
  verification.at_edge = verification.critical == losses.back().effective;
}

std::vector<std::string> sentences_of(const Verification& v, std::optional<double> predicted) {
  std::vector<std::string> sentences;
  if (v.critical == 0)
    return {"Every branch with the run's own batch failed, so that nothing can be compared."};
  const auto next = std::ranges::find_if(
      v.branches, [&](const BranchVerdict& branch) { return branch.losses.effective > v.critical; });
  std::string measured =
      cat("Measured critical batch: ", v.at_edge ? "at least " : "", format_count(v.critical), " samples");
  if (next != v.branches.end())
    measured += cat("; ", format_count(next->losses.effective), " is ", verdict_words(*next));
  sentences.push_back(measured + ".");
  if (predicted && *predicted > 0)
    sentences.push_back(cat("The noise scale predicted ", format_count(std::llround(*predicted)),
                            " samples, of which the measurement is ",
                            brief(static_cast<double>(v.critical) / *predicted, 2), " times",
                            v.at_edge ? " or more" : "", "."));
  sentences.push_back(cat("Branches from update ", v.update, ", ", format_count(v.samples), " samples each, ",
                          v.seeds, v.seeds == 1 ? " seed" : " seeds",
                          "; the training loss of the last quarter of them is compared. "
                          "\"Not worse\" means less than ",
                          format_percent(v.margin, 1),
                          " above the run's own batch, by Welch's "
                          "one-sided test at ",
                          format_percent(kVerificationLevel, 0), "."));
  for (const BranchVerdict& branch : v.branches) {
    if (branch.losses.factor >= 1 || branch.verdict != NotWorse::kWorse) continue;
    sentences.push_back(
        cat(format_count(branch.losses.effective),
            " samples are worse than the run's own batch at equal samples: at the rescaled rate a "
            "smaller batch does not help here."));
  }
  if (v.seeds < 2) sentences.push_back("One seed allows no test; --seeds 3 does.");
  return sentences;
}

nlohmann::ordered_json verification_to_json(const Verification& v) {
  nlohmann::ordered_json branches = nlohmann::ordered_json::array();
  for (const BranchVerdict& branch : v.branches) {
    branches.push_back({{"factor", branch.losses.factor},
                        {"effective_batch", branch.losses.effective},
                        {"training_losses", branch.losses.training},
                        {"failed", branch.losses.failed},
                        {"difference", finite_or_null(branch.difference)},
                        {"p_not_worse", finite_or_null(branch.p_not_worse)},
                        {"p_worse", finite_or_null(branch.p_worse)},
                        {"verdict", to_string(branch.verdict)}});
  }
  return {{"update", v.update},          {"samples", v.samples},           {"seeds", v.seeds},
          {"margin", v.margin},          {"critical", v.critical},         {"at_edge", v.at_edge},
          {"folder", v.folder.string()}, {"branches", std::move(branches)}};
}

}  // namespace autotrain
