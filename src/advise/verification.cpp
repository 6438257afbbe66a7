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
#include "setup/horizon.h"
#include "study/statistics.h"

namespace autotrain {

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

int64_t batch_of(const BranchRequest& request, double factor) {
  const double batch = factor * static_cast<double>(request.effective);
  const auto whole = std::llround(batch);
  if (!(factor > 0) || std::abs(batch - static_cast<double>(whole)) > 1e-9 || whole < 1) {
    throw Error(ExitCode::kUsage, "--factor",
                cat(brief(factor), " × ", request.effective, " is no whole number of samples"),
                "give factors such as 0.5,1,2,4");
  }
  if (whole > request.dataset_size) {
    throw Error(ExitCode::kUsage, "--factor",
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
      ExitCode::kUsage, "--branches",
      cat("the run's schedule has ", std::max<int64_t>(0, left), " samples left after this checkpoint, and ",
          "branches of up to ", branches.back().effective, " samples an update need ", round_up(least, each)),
      cat("give ", request.samples > 0 ? "fewer --samples, " : "",
          "--checkpoint an earlier one (checkpoint.keep keeps more of them), a smaller --factor, or begin "
          "with --config: its short run stops early in the schedule"));
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

// Branch − reference, of the seeds with which both came to their ends.
std::vector<double> differences_of(const BranchLosses& reference, const BranchLosses& branch) {
  std::vector<double> differences;
  for (size_t i = 0; i < std::min(reference.training.size(), branch.training.size()); ++i)
    differences.push_back(branch.training[i] - reference.training[i]);
  return finite_values(differences);
}

BranchVerdict verdict_of(const BranchLosses& reference, const BranchLosses& branch, double margin) {
  if (branch.factor == 1) return {.losses = branch, .verdict = BranchStanding::kReference};
  const std::vector<double> gains = differences_of(branch, reference);
  const std::vector<double> losses = differences_of(reference, branch);
  BranchVerdict v{.losses = branch,
                  .difference = mean(losses),
                  .p_not_worse = p_of_mean_above(gains, -margin),
                  .p_worse = p_of_mean_above(losses, 0),
                  .p_no_better = p_of_mean_above(losses, -margin)};
  if (branch.diverged > 0) {
    v.verdict = BranchStanding::kWorse;
  } else if (branch.failed() > 0) {
    v.verdict = BranchStanding::kUndetermined;
  } else if (p_of_mean_above(gains, margin) < kVerificationLevel) {
    v.verdict = BranchStanding::kBetter;
  } else if (v.p_not_worse < kVerificationLevel) {
    v.verdict = BranchStanding::kNotWorse;
  } else if (v.p_worse < kVerificationLevel) {
    v.verdict = BranchStanding::kWorse;
  }
  return v;
}

std::string verdict_words(const BranchVerdict& v) {
  switch (v.verdict) {
    case BranchStanding::kReference: return "the run's own batch";
    case BranchStanding::kBetter: return "better";
    case BranchStanding::kNotWorse: return "not worse";
    case BranchStanding::kWorse: return "worse";
    case BranchStanding::kUndetermined: break;
  }
  return "undetermined with these seeds";
}

std::string critical_text(const Verification& v) {
  if (v.exceeded)
    return cat("Measured critical batch: below ", format_count(v.critical),
               " samples, the run's own: a smaller one comes to a better loss at equal samples.");
  const auto next = std::ranges::find_if(
      v.branches, [&](const BranchVerdict& branch) { return branch.losses.effective > v.critical; });
  const std::string measured =
      cat("Measured critical batch: ", v.at_edge ? "at least " : "", format_count(v.critical), " samples");
  if (next == v.branches.end()) return measured + ".";
  return cat(measured, "; ", format_count(next->losses.effective), " is ", verdict_words(*next), ".");
}

std::string smaller_text(const BranchVerdict& v) {
  const std::string samples = format_count(v.losses.effective) + " samples ";
  if (v.verdict == BranchStanding::kWorse)
    return samples +
           "are worse than the run's own batch at equal samples: a smaller batch does not help here.";
  if (v.verdict == BranchStanding::kBetter)
    return samples + "are better than the run's own batch at equal samples, by more than the margin.";
  if (v.shows_no_gain()) return samples + "come to no better loss than the run's own batch at equal samples.";
  return samples + "are not told apart from the run's own batch with these seeds.";
}

}  // namespace

int64_t BranchLosses::failed() const {
  return std::ssize(training) - std::ssize(finite_values(training));
}

bool BranchVerdict::shows_no_gain() const {
  return verdict == BranchStanding::kWorse || p_no_better < kVerificationLevel;
}

BranchPlan plan_branches(const BranchRequest& request) {
  std::vector<double> factors = request.factors;
  factors.push_back(1);
  std::ranges::sort(factors);
  const auto twice = std::ranges::unique(factors);
  factors.erase(twice.begin(), twice.end());
  if (factors.size() < 2)
    throw Error(ExitCode::kUsage, "--factor",
                "names the run's own batch alone, which has nothing to be compared with",
                "give factors such as 0.5,1,2,4");
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
  const std::vector<double> finished = finite_values(reference->training);
  const double margin = verification.margin * std::abs(mean(finished));
  bool goes_on = !finished.empty();
  for (const BranchLosses& branch : losses) {
    const BranchVerdict v = verdict_of(*reference, branch, margin);
    if (branch.factor >= 1) {
      goes_on &= v.verdict != BranchStanding::kWorse && v.verdict != BranchStanding::kUndetermined;
      if (goes_on) verification.critical = branch.effective;
    }
    verification.branches.push_back(v);
  }
  verification.exceeded = std::ranges::any_of(verification.branches, [](const BranchVerdict& v) {
    return v.losses.factor < 1 && v.verdict == BranchStanding::kBetter;
  });
  if (verification.exceeded) verification.critical = reference->effective;
  verification.at_edge = !verification.exceeded && verification.critical == losses.back().effective;
}

std::vector<std::string> sentences_of(const Verification& v, std::optional<double> predicted) {
  std::vector<std::string> sentences;
  if (v.critical == 0)
    return {"Every branch with the run's own batch failed, so that nothing can be compared."};
  if (v.seeds < 2) return {"One seed allows no test of the branches; --seeds 3 does."};
  sentences.push_back(critical_text(v));
  if (predicted && *predicted > 0)
    sentences.push_back(cat("The noise scale predicted ", format_count(std::llround(*predicted)),
                            " samples, of which the measurement is ",
                            brief(static_cast<double>(v.critical) / *predicted, 2), " times",
                            v.at_edge    ? " or more"
                            : v.exceeded ? " or less"
                                         : "",
                            "."));
  sentences.push_back(cat("Branches from update ", v.update, ", ", format_count(v.samples), " samples each, ",
                          v.seeds, v.seeds == 1 ? " seed" : " seeds",
                          "; the training loss of the last quarter of them is compared. "
                          "\"Not worse\" means less than ",
                          format_percent(v.margin, 1),
                          " above the run's own batch with the same seed, by Student's one-sided test at ",
                          format_percent(kVerificationLevel, 0), "."));
  for (const BranchVerdict& branch : v.branches) {
    if (branch.losses.factor < 1) sentences.push_back(smaller_text(branch));
  }
  return sentences;
}

nlohmann::ordered_json verification_to_json(const Verification& v) {
  nlohmann::ordered_json branches = nlohmann::ordered_json::array();
  for (const BranchVerdict& branch : v.branches) {
    auto training = nlohmann::ordered_json::array();
    for (const double loss : branch.losses.training) training.push_back(finite_or_null(loss));
    branches.push_back({{"factor", branch.losses.factor},
                        {"effective_batch", branch.losses.effective},
                        {"training_losses", std::move(training)},
                        {"failed", branch.losses.failed()},
                        {"diverged", branch.losses.diverged},
                        {"difference", finite_or_null(branch.difference)},
                        {"p_not_worse", finite_or_null(branch.p_not_worse)},
                        {"p_worse", finite_or_null(branch.p_worse)},
                        {"p_no_better", finite_or_null(branch.p_no_better)},
                        {"verdict", to_string(branch.verdict)}});
  }
  return {{"update", v.update},     {"samples", v.samples},        {"seeds", v.seeds},
          {"margin", v.margin},     {"critical", v.critical},      {"at_edge", v.at_edge},
          {"exceeded", v.exceeded}, {"folder", v.folder.string()}, {"branches", std::move(branches)}};
}

}  // namespace autotrain
