#include "compare/compare_tables.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "base/text.h"
#include "base/units.h"
#include "compare/compare_columns.h"
#include "compare/over_tasks.h"

namespace autotrain {

std::string number_text(double value) {
  return std::isfinite(value) ? brief(value) : "-";
}

// Of two recipes a third is both of them.
bool leaves_out(const Comparison& c) {
  return c.terms.rungs.size() > 1;
}

std::string plan_cell(const nlohmann::ordered_json& plan, const char* key) {
  if (plan.is_null() || !plan.contains(key)) return "-";
  const auto& value = plan.at(key);
  return value.is_string() ? value.get<std::string>() : brief(value.get<double>(), 6);
}

std::string words_of(FairAxis axis) {
  switch (axis) {
    case FairAxis::kTrainingLoss: return "training loss";
    case FairAxis::kEnd: return "each at its end";
    case FairAxis::kBest: return "each at its best";
    default: return to_string(axis);
  }
}

std::string place_text(const Comparison& c, FairAxis axis) {
  switch (axis) {
    case FairAxis::kSamples: return cat("after ", format_count(c.samples), " samples");
    case FairAxis::kSeconds: return cat("after ", format_seconds(c.seconds));
    case FairAxis::kTrainingLoss: return cat("at training loss ", brief(c.training_loss));
    case FairAxis::kEnd: return "at its end";
    case FairAxis::kBest: return "at its best";
  }
  return "";
}

std::string rest_of_axes(const Comparison& c, size_t recipe, const std::string& leaving_out) {
  std::vector<std::string> parts;
  for (const DifferingKey& axis : c.terms.axes) {
    if (axis.path == leaving_out) continue;
    const std::string& value = axis.values[recipe];
    const bool word = !value.empty() && is_letter(value[0]);
    parts.push_back(word ? value : cat(axis.path.substr(axis.path.rfind('.') + 1), " ", value));
  }
  return join(parts, ", ");
}

std::string verdict_text(const Difference& d, const ComparisonTerms& terms) {
  using Verdict = Difference::Verdict;
  if (d.verdict == Verdict::kBetter || d.verdict == Verdict::kWorse)
    return cat(terms.recipes[d.verdict == Verdict::kBetter ? d.b : d.a], " is better",
               d.p_equivalent < verdict_level(terms) ? cat(", by less than ", shortest(*terms.margin)) : "");
  if (d.verdict == Verdict::kEquivalent) return cat("the same within ", shortest(*terms.margin));
  if (d.verdict == Verdict::kNotTested)
    return "not tested: " + (d.reason.empty() ? "needs two values of each" : d.reason);
  if (d.verdict == Verdict::kNoSpread) return "no verdict: " + d.reason;
  if (d.verdict == Verdict::kRunsMissing) return "no verdict: " + d.reason;
  if (d.verdict == Verdict::kNotComparable) return cat("not compared: they ", d.reason);
  if (d.mean == 0) return "no difference with these seeds";
  if (terms.paired) return "not distinguishable with these seeds";
  return cat("not distinguishable with these seeds; ",
             d.runs_needed ? cat("about ", *d.runs_needed) : cat("more than ", format_count(kMostRunsNeeded)),
             " of each would be needed");
}

namespace {

// Where the best stands on an axis of numbers, if nothing lies beyond it: "the largest optimizer.lr"; "".
std::string edges_in_words(const Comparison& c, size_t recipe) {
  std::vector<std::string> edges;
  for (const DifferingKey& axis : c.terms.axes) {
    const Edge edge = edge_of(axis.values, axis.values[recipe]);
    if (edge != Edge::kNone)
      edges.push_back(cat(edge == Edge::kSmallest ? "the smallest " : "the largest ", axis.path));
  }
  return join(edges, " and ");
}

std::vector<std::string> labels_of(const Comparison& c, const std::vector<size_t>& recipes) {
  std::vector<std::string> labels;
  for (const size_t recipe : recipes) labels.push_back(c.terms.recipes[recipe]);
  return labels;
}

}  // namespace

std::string answer_of(const Comparison& c) {
  const BestRecipe& best = c.best;
  std::string answer;
  if (!best.why_none.empty()) {
    answer = cat("No best is named: ", best.why_none, ".");
  } else if (best.recipe && c.recipes.size() == 1) {
    answer = cat("One recipe, so there is nothing to compare it with: after ", format_count(c.samples),
                 " samples its ", c.terms.figure, " is ",
                 spread_text(spread_on(c.recipes[0], FairAxis::kSamples)), ".");
  } else if (best.recipe) {
    answer =
        cat("After ", format_count(c.samples), " samples ", c.terms.recipes[*best.recipe], " has the best ",
            c.terms.figure, ", ", spread_text(spread_on(c.recipes[*best.recipe], FairAxis::kSamples)),
            best.alike.empty() ? "."
            : c.terms.so_far
                ? "; runs are still to come, so nothing is tested yet."
                : cat("; these seeds cannot tell it from ", join(labels_of(c, best.alike), ", "), "."));
    if (c.terms.recipes.size() > 2)
      answer +=
          " It was chosen by the runs that it is judged by, so its figure is flattered; fresh seeds "
          "(--confirm) "
          "would show by how much.";
    if (const std::string edge = edges_in_words(c, *best.recipe); !edge.empty())
      answer += cat(" It has ", edge, " of the grid: what is best may lie beyond.");
  } else {
    answer = best.left_out.empty() ? "No run has ended yet, so there is nothing to compare."
                                   : "No best is named, because no recipe has a value of every run.";
  }
  for (const auto& [recipe, why] : best.left_out)
    answer += cat(" ", c.terms.recipes[recipe], " has no part in this: ", why, ".");
  return answer;
}

namespace {

// At which training loss runs are compared, and which never came there; "" where they are not.
std::string training_loss_note(const Comparison& c) {
  const bool any = std::ranges::any_of(
      c.recipes, [](const RecipeFigures& r) { return spread_on(r, FairAxis::kTrainingLoss).count > 0; });
  if (!any || !std::isfinite(c.training_loss)) return "";
  std::map<std::string, int64_t> never, below;  // by recipe: runs
  for (const RunOutcome& run : c.runs) {
    if (run.share >= 1 && !run.losses.empty() && !run.loss_place) ++never[run.recipe];
    if (run.below_at_first) ++below[run.recipe];
  }
  const auto runs_of = [](const std::map<std::string, int64_t>& runs) {
    std::vector<std::string> parts;
    for (const auto& [recipe, count] : runs) parts.push_back(cat(count, " of ", recipe));
    return join(parts, ", ");
  };
  const std::string window = format_count(std::llround(c.loss_window));
  std::string note = cat("At equal training loss runs are compared where the mean loss of the last ", window,
                         " samples first came down to ", brief(c.training_loss),
                         ", the loss with which the runs of ", c.terms.recipes[c.least_learned],
                         " ended, in their median: what differs there is not for want of training.");
  if (!never.empty())
    note += cat(" Runs that never came there (", runs_of(never), ") have the figure of their end.");
  if (!below.empty())
    note += cat(" Runs that had less already over their first ", window, " samples (", runs_of(below),
                ") have the figure of that place, and nothing is said of how their recipes differ in it.");
  return note;
}

std::string seeds_text(const std::vector<int64_t>& seeds) {
  if (seeds.empty()) return "no seed";
  const bool row = seeds.size() > 2 && seeds.back() - seeds.front() + 1 == std::ssize(seeds);
  if (row) return cat("seeds ", seeds.front(), " to ", seeds.back());
  std::vector<std::string> words;
  for (const int64_t seed : seeds) words.push_back(std::to_string(seed));
  return cat(seeds.size() == 1 ? "seed " : "seeds ", join(words, ", "));
}

// On how many seeds each recipe stands: of all, or where that is not the same, of each.
std::string runs_text(const Comparison& c) {
  std::map<std::vector<int64_t>, std::vector<std::string>> recipes;  // by their seeds
  for (size_t i = 0; i < c.recipes.size(); ++i) {
    if (has_part(c.recipes[i])) recipes[seeds_of(c, i)].push_back(c.terms.recipes[i]);
  }
  if (recipes.empty()) return "of which no run has ended yet";
  if (recipes.size() == 1) {
    const std::vector<int64_t>& seeds = recipes.begin()->first;
    const bool all = recipes.begin()->second.size() == c.recipes.size();
    return cat(
        all ? c.recipes.size() == 1 ? "" : "each " : cat(recipes.begin()->second.size(), " of them "),
        "trained with ", seeds.size(), seeds.size() == 1 ? " seed" : " seeds",
        seeds == c.terms.seeds || c.terms.seeds.empty() ? "" : cat(" (so far: ", seeds_text(seeds), ")"));
  }
  std::vector<std::string> parts;
  for (const auto& [seeds, labels] : recipes)
    parts.push_back(cat(join(labels, ", "), " with ", seeds_text(seeds)));
  return cat("trained with seeds that are not the same (", join(parts, "; "), ")");
}

// What was asked, for those who see it for the first time.
std::string question_of(const Comparison& c) {
  const size_t recipes = c.terms.recipes.size(), axes = axes_of(c).size();
  // Which direction is better is known of what was measured.
  const bool measured = std::ranges::any_of(c.runs, [](const RunOutcome& run) { return !run.curve.empty(); });
  std::string text = cat(recipes, recipes == 1 ? " recipe, " : " recipes, ", runs_text(c), ", compared by ",
                         c.terms.figure, " on the validation data",
                         !measured                 ? "."
                         : c.terms.lower_is_better ? ", of which less is better."
                                                   : ", of which more is better.");
  if (recipes > 1)
    text += cat(" That one is better is said where it would be false in at most one study of ",
                std::llround(1 / verdict_level(c.terms)), " in which nothing differs, for each of the ", axes,
                " ways of making runs equal by itself: decide beforehand which of them counts.");
  return text;
}

// The least and the most samples that evaluations were on; 0: not known.
std::pair<int64_t, int64_t> evaluated_samples(const Comparison& c) {
  std::pair<int64_t, int64_t> range = {0, 0};
  for (const RunOutcome& run : c.runs) {
    if (run.curve.empty() || run.curve.back().evaluated == 0) continue;
    const int64_t samples = run.curve.back().evaluated;
    range = {range.first == 0 ? samples : std::min(range.first, samples), std::max(range.second, samples)};
  }
  return range;
}

// How far a share of so many samples is uncertain by those samples alone, in words.
std::string sampling_text(const Comparison& c, int64_t samples) {
  const size_t shown = c.best.recipe.value_or(0);
  const double share = spread_on(c.recipes[shown], FairAxis::kSamples).mean;
  const bool of_samples = std::ranges::any_of(c.runs, [&](const RunOutcome& run) {
    const auto kind = run.figure_kinds.find(c.terms.figure);
    return run.recipe == c.terms.recipes[shown] && kind != run.figure_kinds.end() && kind->second.of_samples;
  });
  if (!of_samples || !(share >= 0 && share <= 1)) return "";
  const ConfidenceInterval interval =
      share_interval(std::llround(share * static_cast<double>(samples)), samples);
  return cat(": one sample more or less is ", brief(1 / static_cast<double>(samples)), ", and ",
             c.terms.figure, " ", brief(share), " on these may be ", brief(interval.low), " to ",
             brief(interval.high), " on all data like them (95 % interval)");
}

// What cannot be said, however small p is.
std::string limits_of(const Comparison& c) {
  std::string text;
  const auto [least, most] = evaluated_samples(c);
  if (least > 0 && least == most) {
    text = cat("Verdicts are about other seeds and the same ", format_count(least),
               " validation samples, not about other data", sampling_text(c, least), ".");
  } else {
    text = "Verdicts are about other seeds and the same validation data, not about other data.";
  }
  if (least != most)
    text += cat(" Runs were evaluated on different numbers of samples, ", format_count(least), " to ",
                format_count(most), ".");
  std::vector<std::string> single;
  for (size_t i = 0; i < c.recipes.size(); ++i) {
    if (seeds_of(c, i).size() == 1) single.push_back(c.terms.recipes[i]);
  }
  if (!single.empty())
    text += cat(" ", join(single, ", "), single.size() == 1 ? " has one run" : " have one run each",
                ", which tells nothing of chance: there is no test.");
  return text;
}

// Recipes that made the same runs under two names.
std::vector<std::string> twin_notes(const Comparison& c) {
  std::vector<std::string> notes;
  for (const auto& [a, b] : c.terms.pairs) {
    if (!same_figures(c, a, b)) continue;
    if (const std::vector<std::string> others = other_figures_differing(c, a, b); !others.empty()) {
      notes.push_back(cat(c.terms.recipes[a], " and ", c.terms.recipes[b], " came to the same ",
                          c.terms.figure, " with every seed, and not to the same ", join(others, ", "), ": ",
                          c.terms.figure, " on these data is too coarse to tell them apart."));
      continue;
    }
    std::vector<std::string> keys;
    for (const DifferingKey& key : c.terms.differing_keys) {
      if (key.values.at(a) != key.values.at(b)) keys.push_back(key.path);
    }
    notes.push_back(
        cat(c.terms.recipes[a], " and ", c.terms.recipes[b], " came to the same ", c.terms.figure,
            " with every seed (where only a rule that does nothing differs, it was trained once): ",
            keys.empty() ? "they are one recipe under two names, and no second measurement"
                         : cat("what they differ in (", join(keys, ", "), ") did nothing to it"),
            "."));
  }
  return notes;
}

// Seeds that were added with the verdicts of fewer in view.
std::vector<std::string> look_notes(const Comparison& c) {
  if (c.terms.looks.empty()) return {};
  std::vector<std::string> seeds;
  for (const int64_t look : c.terms.looks) seeds.push_back(std::to_string(look));
  const auto looks = static_cast<double>(c.terms.looks.size() + 1);
  return {cat("Seeds were changed after ", c.terms.looks.size(),
              c.terms.looks.size() == 1 ? " look" : " looks", " (with ", join(seeds, ", "),
              "): who goes on until something differs finds it by chance in up to ",
              format_percent(1 - std::pow(1 - kFalseAlarms, looks), 0),
              " of studies instead of 5 %. A verdict therefore asks for p below ",
              brief(verdict_level(c.terms)), " here, which keeps all looks together below 10 %.")};
}

// Runs of one recipe do the same work: where their speeds differ, the machine had other work.
std::vector<std::string> speed_notes(const Comparison& c) {
  constexpr double kDisturbed = 1.5;
  double most = 1;
  std::string whose;
  for (const std::string& recipe : c.terms.recipes) {
    double slowest = HUGE_VAL, fastest = 0;
    for (const RunOutcome& run : c.runs) {
      if (run.recipe != recipe || !(run.samples_per_second > 0)) continue;
      slowest = std::min(slowest, run.samples_per_second);
      fastest = std::max(fastest, run.samples_per_second);
    }
    if (fastest / slowest <= most) continue;
    most = fastest / slowest;
    whose = recipe;
  }
  if (most < kDisturbed) return {};
  return {cat(
      "Runs of ", whose, " were up to ", brief(most, 2),
      " times as fast as others of it: the machine had other work, or they ran on several, so what is said "
      "of equal time says little about the recipes.")};
}

// Whether pairing by seed helps, or helped.
std::vector<std::string> pairing_notes(const Comparison& c) {
  std::vector<std::string> notes;
  for (const Difference& d : c.differences) {
    if (d.axis != FairAxis::kSamples || std::isnan(d.correlation)) continue;
    const std::string pair = cat(c.terms.recipes[d.a], " and ", c.terms.recipes[d.b]);
    constexpr double kHigh = 0.7;
    if (c.terms.paired)
      notes.push_back(cat("In pairs of the same seed ", pair,
                          " rise and fall together with r = ", brief(d.correlation, 2), ": pairing ",
                          d.p_paired < d.p_welch ? "helps" : "does not help", " (p ", number_text(d.p_paired),
                          " in pairs, ", number_text(d.p_welch), " by Welch's test)."));
    else if (d.correlation > kHigh && seeds_of(c, d.a).size() > 2)
      notes.push_back(
          cat(pair, " rise and fall together over the seeds (r = ", brief(d.correlation, 2),
              "): a test of pairs (--paired) would find smaller differences. It counts where it was "
              "chosen before, or on fresh seeds."));
    if (notes.size() > 3) break;
  }
  return notes;
}

// A recipe that fails now and then is worth less than the mean of its other runs.
std::vector<std::string> failure_notes(const Comparison& c) {
  std::vector<std::string> notes;
  for (size_t i = 0; i < c.recipes.size(); ++i) {
    const RecipeFigures& r = c.recipes[i];
    if (r.failed == 0) continue;
    std::string first;
    for (const RunOutcome& run : c.runs) {
      if (run.recipe == c.terms.recipes[i] && !run.failure.empty() && first.empty())
        first = cat("seed ", run.seed, ": ", first_line(run.failure));
    }
    notes.push_back(cat(c.terms.recipes[i], " failed in ", r.failed, " of ", r.runs, " runs, so in ",
                        format_percent(r.failed_share.low, 0), " to ", format_percent(r.failed_share.high, 0),
                        " of all (95 % interval); ", first, "."));
  }
  return notes;
}

// Plans that differ in what decides bits or speed, between the recipes or between runs of one. Effective
// batches are told where no key of the recipes does: what `auto` comes to follows memory and micro-batch.
std::vector<std::string> plan_notes(const Comparison& c) {
  const bool told = std::ranges::any_of(
      c.terms.differing_keys, [](const DifferingKey& key) { return key.path.starts_with("batch."); });
  std::vector<std::string> notes;
  for (const auto& [key, what] :
       {std::pair("precision", "precisions"), std::pair("device_name", "machines"),
        std::pair("program", "versions of the program"), std::pair("effective_batch", "effective batches")}) {
    if (told && key == std::string_view("effective_batch")) continue;
    std::map<std::string, std::set<std::string>> recipes;  // by value
    for (const RunOutcome& run : c.runs) {
      if (run.plan.is_object() && run.plan.contains(key))
        recipes[plan_cell(run.plan, key)].insert(run.recipe);
    }
    if (recipes.size() < 2) continue;
    std::vector<std::string> parts;
    for (const auto& [value, of] : recipes)
      parts.push_back(cat(value, ": ", join(std::vector<std::string>(of.begin(), of.end()), ", ")));
    notes.push_back(
        cat("Runs had different ", what, " (", join(parts, "; "), "): what differs may come of that."));
  }
  return notes;
}

std::vector<std::string> test_notes(const Comparison& c) {
  if (c.terms.test.empty()) return {};
  std::set<size_t> read;
  for (const TestReading& each : c.terms.test) read.insert(each.recipe);
  std::string note = cat("The test data were read for ", join(labels_of(c, {read.begin(), read.end()}), ", "),
                         " alone, after ", read.size() == 1 ? "it was" : "they were",
                         " chosen: what was chosen by validation data is flattered there, and not here.");
  if (!c.terms.looks.empty())
    note +=
        " Where they were read before, with fewer or more seeds, what was changed since may have been "
        "chosen by them.";
  return {std::move(note)};
}

std::vector<std::string> tuning_notes(const Comparison& c) {
  if (!c.terms.tuned) return {};
  const Tuning& tuned = *c.terms.tuned;
  std::vector<std::string> edges;
  size_t runs = 0;
  for (size_t i = 0; i < tuned.recipes.size(); ++i) {
    runs = std::max(runs, tuned.recipes[i].tried.size());
    if (tuned.recipes[i].at_edge) edges.push_back(c.terms.recipes[i]);
  }
  std::vector<std::string> notes = {
      cat(tuned.key, " was tuned for each recipe before they were compared: at most ", runs,
          " values, one run each, on a seed that is none of the comparison's, by the same validation data.")};
  if (!edges.empty()) {
    notes.push_back(cat("The best ", tuned.key, " of ", join(edges, ", "),
                        " is at the edge of what was tried: a better one may lie beyond it."));
  }
  return notes;
}

}  // namespace

std::vector<std::string> notes_of(const Comparison& c) {
  constexpr size_t kFewDifferences = 6;
  std::vector<std::string> notes = {question_of(c), answer_of(c), limits_of(c)};
  for (const std::string& warning : c.terms.warnings) notes.push_back("Not fair: " + warning + ".");
  for (auto* const more : {&test_notes, &tuning_notes, &failure_notes, &plan_notes, &twin_notes, &look_notes,
                           &pairing_notes, &speed_notes}) {
    for (std::string& note : (*more)(c)) notes.push_back(std::move(note));
  }
  if (c.differences.size() <= kFewDifferences) {
    for (const Difference& d : c.differences) {
      const bool own = d.axis == FairAxis::kEnd || d.axis == FairAxis::kBest;
      notes.push_back(cat(c.terms.recipes[d.a], " and ", c.terms.recipes[d.b], own ? ", " : " at equal ",
                          words_of(d.axis), ": ", verdict_text(d, c.terms), "."));
    }
  }
  if (leaves_out(c)) {
    notes.push_back(
        "Halving compared recipes after equal shares of their runs: one that learns late, as large batches "
        "do, "
        "may have been left out that would have been the best at its end. Those left out are trained to "
        "their "
        "end from where they are by the same command without --halving.");
  }
  if (std::string note = training_loss_note(c); !note.empty()) notes.push_back(std::move(note));
  for (size_t i = 0; i < c.recipes.size(); ++i) {
    if (!c.recipes[i].no_sharpness.empty())
      notes.push_back(cat("The sharpness of ", c.terms.recipes[i], " is not available, because ",
                          c.recipes[i].no_sharpness, "."));
  }
  if (std::ranges::any_of(c.runs, [](const RunOutcome& run) { return !run.warnings.empty(); }))
    notes.push_back("Some runs warned: the last table has of what.");
  const std::vector<FairAxis> axes = axes_of(c);
  if (std::ranges::count(axes, FairAxis::kBest) > 0) {
    notes.push_back(
        "The best of several evaluations is chosen by the figure that it then shows, so it is flattered, "
        "the more the more evaluations there are.");
  }
  return notes;
}

}  // namespace autotrain
