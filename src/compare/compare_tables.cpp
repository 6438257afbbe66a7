#include "compare/compare_tables.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "base/text.h"
#include "base/units.h"

namespace autotrain {
namespace {

// A spread in a unit.
template <class Format>
std::string spread_in(const Spread& s, Format format) {
  if (s.count == 0) return "-";
  return std::isfinite(s.deviation) ? cat(format(s.mean), " ± ", format(s.deviation)) : format(s.mean);
}

std::string number_text(double value) {
  return std::isfinite(value) ? brief(value) : "-";
}

std::string bytes_text(double bytes) {
  return format_bytes(static_cast<int64_t>(bytes));
}

std::string count_text(double count) {
  return format_count(std::llround(count));
}

std::string target_text(const Target& target) {
  return cat(target.figure, target.at_most ? " ≤ " : " ≥ ", shortest(target.value));
}

std::string plan_cell(const nlohmann::ordered_json& plan, const char* key) {
  if (plan.is_null()) return "-";
  const auto& value = plan.at(key);
  return value.is_string() ? value.get<std::string>() : brief(value.get<double>(), 6);
}

page::Table figures_table(const Comparison& c) {
  page::Table table{
      cat(c.terms.figure, " of ", c.terms.seeds.size(),
          c.terms.seeds.size() == 1 ? " seed" : " seeds, mean ± standard deviation"),
      {"recipe", "runs", cat("after ", format_count(c.samples), " samples"),
       cat("after ", format_seconds(c.seconds)), "at its end", "training time", "samples/s", "peak memory"}};
  for (size_t i = 0; i < c.recipes.size(); ++i) {
    const RecipeFigures& r = c.recipes[i];
    table.rows.push_back({c.terms.recipes[i], cat(r.runs - r.failed, " of ", r.runs),
                          spread_text(r.at_samples), spread_text(r.at_seconds), spread_text(r.final),
                          spread_in(r.training_seconds, format_seconds),
                          spread_in(r.samples_per_second, format_rate), spread_in(r.peak_bytes, bytes_text)});
  }
  return table;
}

page::Table target_table(const Comparison& c) {
  if (!c.terms.target) return {};
  page::Table table{"to " + target_text(*c.terms.target),
                    {"recipe", "reached", "training time", "samples", "updates"}};
  for (size_t i = 0; i < c.recipes.size(); ++i) {
    const RecipeFigures& r = c.recipes[i];
    table.rows.push_back({c.terms.recipes[i], cat(r.target_updates.count, " of ", r.runs),
                          spread_in(r.target_seconds, format_seconds),
                          spread_in(r.target_samples, count_text), spread_in(r.target_updates, count_text)});
  }
  return table;
}

page::Table gap_table(const Comparison& c) {
  std::set<std::string> figures;
  for (const RecipeFigures& r : c.recipes) {
    for (const auto& [name, gap] : r.gaps) figures.insert(name);
  }
  if (figures.empty()) return {};
  page::Table table{"generalisation gap at the end: training set − validation", {"recipe"}};
  table.header.insert(table.header.end(), figures.begin(), figures.end());
  for (size_t i = 0; i < c.recipes.size(); ++i) {
    std::vector<std::string> row = {c.terms.recipes[i]};
    for (const std::string& name : figures) {
      const auto gap = c.recipes[i].gaps.find(name);
      row.push_back(gap == c.recipes[i].gaps.end() ? "-" : spread_text(gap->second));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

page::Table difference_table(const Comparison& c) {
  page::Table table{"differences: b − a, with Welch's test and Holm's correction",
                    {"a", "b", "at equal", "b − a", "95 % interval", "p", "p (Holm)", ""}};
  for (const Difference& d : c.differences) {
    table.rows.push_back(
        {c.terms.recipes[d.a], c.terms.recipes[d.b], to_string(d.axis), number_text(d.mean),
         std::isfinite(d.interval.low) ? cat(brief(d.interval.low), " to ", brief(d.interval.high)) : "-",
         number_text(d.p), number_text(d.p_holm), verdict_text(d, c.terms)});
  }
  return table;
}

page::Table plan_table(const Comparison& c) {
  page::Table table{"plans", {"recipe", "precision", "effective batch", "micro-batch", "window", "lr"}};
  for (size_t i = 0; i < c.recipes.size(); ++i) {
    const auto& plan = c.recipes[i].plan;
    table.rows.push_back({c.terms.recipes[i], plan_cell(plan, "precision"),
                          plan_cell(plan, "effective_batch"), plan_cell(plan, "micro_batch"),
                          plan_cell(plan, "window"), plan_cell(plan, "lr")});
  }
  return table;
}

page::Table key_table(const Comparison& c) {
  page::Table table{"keys that differ", {"key"}};
  table.header.insert(table.header.end(), c.terms.recipes.begin(), c.terms.recipes.end());
  for (const DifferingKey& key : c.terms.differing_keys) {
    table.rows.push_back({key.path});
    table.rows.back().insert(table.rows.back().end(), key.values.begin(), key.values.end());
  }
  return table;
}

page::Table failure_table(const Comparison& c) {
  page::Table table{"runs that failed", {"recipe", "seed", "code", "why"}};
  for (const RunOutcome& run : c.runs) {
    if (!run.failure.empty())
      table.rows.push_back({run.recipe, cat(run.seed), cat(run.code), first_line(run.failure)});
  }
  return table;
}

}  // namespace

std::string spread_text(const Spread& spread) {
  return spread_in(spread, number_text);
}

std::string verdict_text(const Difference& d, const ComparisonTerms& terms) {
  using Verdict = Difference::Verdict;
  if (d.verdict == Verdict::kBetter || d.verdict == Verdict::kWorse)
    return cat(terms.recipes[d.verdict == Verdict::kBetter ? d.b : d.a], " is better");
  if (d.verdict == Verdict::kNotTested) return "not tested: needs two values of each";
  if (d.mean == 0) return "no difference with these seeds";
  return cat("not distinguishable with these seeds; ",
             d.runs_needed ? cat("about ", *d.runs_needed) : cat("more than ", format_count(kMostRunsNeeded)),
             " of each would be needed");
}

std::string answer_of(const Comparison& c) {
  const auto value_of = [&](size_t recipe) {
    const Spread& spread = c.recipes[recipe].at_samples;
    return spread.count == 0 ? std::numeric_limits<double>::quiet_NaN() : spread.mean;
  };
  std::optional<size_t> best;
  for (size_t i = 0; i < c.recipes.size(); ++i) {
    if (!std::isfinite(value_of(i))) continue;
    if (!best || (c.terms.lower_is_better ? value_of(i) < value_of(*best) : value_of(i) > value_of(*best)))
      best = i;
  }
  if (!best) return "No run was evaluated, so there is nothing to compare.";
  std::vector<std::string> alike;
  for (const Difference& d : c.differences) {
    if (d.axis != FairAxis::kSamples || (d.a != *best && d.b != *best)) continue;
    if (d.verdict == Difference::Verdict::kNotDistinguishable || d.verdict == Difference::Verdict::kNotTested)
      alike.push_back(c.terms.recipes[d.a == *best ? d.b : d.a]);
  }
  return cat("After ", format_count(c.samples), " samples ", c.terms.recipes[*best], " has the best ",
             c.terms.figure, ", ", spread_text(c.recipes[*best].at_samples),
             alike.empty() ? "." : cat("; these seeds cannot tell it from ", join(alike, ", "), "."));
}

std::vector<std::string> notes_of(const Comparison& c) {
  constexpr size_t kFewSeeds = 10, kFewDifferences = 6;
  std::vector<std::string> notes = {answer_of(c)};
  if (c.differences.size() <= kFewDifferences) {
    for (const Difference& d : c.differences) {
      notes.push_back(cat(c.terms.recipes[d.a], " and ", c.terms.recipes[d.b], " at equal ",
                          to_string(d.axis), ": ", verdict_text(d, c.terms), "."));
    }
  }
  for (const std::string& warning : c.terms.warnings) notes.push_back("Not fair: " + warning + ".");
  const size_t seeds = c.terms.seeds.size();
  if (seeds > 1 && seeds < kFewSeeds && !c.differences.empty()) {
    notes.push_back(cat("Of ", seeds,
                        " seeds a bootstrap interval tends to be narrower than its 95 % say; the verdicts "
                        "are those of Welch's test, which takes the few seeds into account."));
  }
  return notes;
}

std::vector<page::Table> tables_of(const Comparison& c) {
  std::vector<page::Table> tables = {figures_table(c), target_table(c), difference_table(c), gap_table(c),
                                     plan_table(c),    key_table(c),    failure_table(c)};
  std::erase_if(tables, [](const page::Table& table) { return table.rows.empty(); });
  return tables;
}

}  // namespace autotrain
