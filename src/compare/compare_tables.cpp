#include "compare/compare_tables.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "base/text.h"
#include "base/units.h"
#include "compare/compare_columns.h"
#include "compare/key_effects.h"
#include "compare/over_tasks.h"

namespace autotrain {
namespace {

// A spread in a unit.
template <class Format>
std::string spread_in(const Spread& s, Format format) {
  const std::string part = s.complete() ? "" : cat(s.count, " of ", s.runs);
  if (s.count == 0) return s.runs == 0 ? "-" : part;
  return cat(format(s.mean), std::isfinite(s.deviation) ? cat(" ± ", format(s.deviation)) : "",
             part.empty() ? "" : cat(" (", part, ")"));
}

// Of many recipes a row for each pair would hide the answer.
constexpr size_t kMostDifferenceRows = 40;

std::string spread_cell(const RecipeFigures& r, const Column<ComparedRun>& column) {
  return spread_in(spread_of(r, column.name), [&](double value) { return in_unit(value, column.unit); });
}

// Of the way to the target, or of whole runs.
std::vector<const Column<ComparedRun>*> columns_shown(bool of_target) {
  std::vector<const Column<ComparedRun>*> shown;
  for (const Column<ComparedRun>& column : run_columns()) {
    if (!column.heading.empty() && column.name.starts_with("target_") == of_target) shown.push_back(&column);
  }
  return shown;
}

std::string target_text(const Target& target) {
  return cat(target.figure, target.at_most ? " ≤ " : " ≥ ", shortest(target.value));
}

// The figure at the end stands beside the others, even where it is that of equal samples.
std::vector<FairAxis> axes_shown(const Comparison& c) {
  std::vector<FairAxis> axes = axes_of(c);
  if (std::ranges::count(axes, FairAxis::kEnd) == 0) axes.push_back(FairAxis::kEnd);
  return axes;
}

page::Table figures_table(const Comparison& c) {
  page::Table table{cat(c.terms.figure, " of ", c.terms.seeds.size(),
                        c.terms.seeds.size() == 1 ? " seed" : " seeds, mean ± standard deviation"),
                    {"recipe", "runs"}};
  const std::vector<FairAxis> axes = axes_shown(c);
  for (const FairAxis axis : axes) table.header.push_back(place_text(c, axis));
  for (const auto* const column : columns_shown(/*of_target=*/false)) table.header.push_back(column->heading);
  for (size_t i = 0; i < c.recipes.size(); ++i) {
    const RecipeFigures& r = c.recipes[i];
    table.rows.push_back({c.terms.recipes[i], cat(r.runs - r.failed - r.unfinished, " of ", r.runs)});
    std::vector<std::string>& row = table.rows.back();
    for (const FairAxis axis : axes) row.push_back(spread_text(spread_on(r, axis)));
    for (const auto* const column : columns_shown(/*of_target=*/false))
      row.push_back(spread_cell(r, *column));
  }
  return table;
}

// A grid's first axis downwards, what the others have in common across.
page::Table grid_table(const Comparison& c, FairAxis axis) {
  if (c.terms.axes.size() < 2) return {};
  const DifferingKey& down = c.terms.axes[0];
  page::Table table{cat(c.terms.figure, " ", place_text(c, axis)), {down.path}};
  std::map<std::string, size_t> rows, columns;
  for (size_t i = 0; i < c.recipes.size(); ++i) {
    const auto [row, new_row] = rows.try_emplace(down.values[i], table.rows.size());
    if (new_row) table.rows.push_back({down.values[i]});
    const std::string rest = rest_of_axes(c, i, down.path);
    const auto [column, new_column] = columns.try_emplace(rest, table.header.size());
    if (new_column) table.header.push_back(rest);
    std::vector<std::string>& cells = table.rows[row->second];
    if (cells.size() <= column->second) cells.resize(column->second + 1);
    cells[column->second] = spread_text(spread_on(c.recipes[i], axis));
  }
  for (std::vector<std::string>& row : table.rows) row.resize(table.header.size());
  return table;
}

// The medians by which halving chose; of a recipe that was left out, a dash from there on.
page::Table halving_table(const Comparison& c) {
  if (!leaves_out(c)) return {};
  page::Table table{cat("successive halving by the median ", c.terms.figure), {"recipe"}};
  for (const Rung& rung : c.terms.rungs)
    table.header.push_back(rung.share < 1 ? cat("after ", format_percent(rung.share), " of its run")
                                          : "at its end");
  for (size_t i = 0; i < c.recipes.size(); ++i) {
    table.rows.push_back({c.terms.recipes[i]});
    for (const Rung& rung : c.terms.rungs) table.rows.back().push_back(number_text(rung.medians[i]));
  }
  return table;
}

std::string share_interval_text(const ConfidenceInterval& share) {
  return cat(format_percent(share.low, 0), " to ", format_percent(share.high, 0));
}

page::Table target_table(const Comparison& c) {
  if (!c.terms.target) return {};
  const std::string horizon = cat("after ", format_count(c.samples), " samples");
  page::Table table{cat("to ", target_text(*c.terms.target), "; of runs that never reach it, ",
                        format_count(c.samples), " samples count"),
                    {"recipe", "reached", cat("reached ", horizon), "95 % interval", "mean samples, all runs",
                     "without best and worst"}};
  for (const auto* const column : columns_shown(/*of_target=*/true)) table.header.push_back(column->heading);
  for (size_t i = 0; i < c.recipes.size(); ++i) {
    const RecipeFigures& r = c.recipes[i];
    std::vector<std::string>& row = table.rows.emplace_back();
    row = {c.terms.recipes[i],
           cat(spread_of(r, "target_updates").count, " of ", r.runs),
           cat(r.reached, " of ", r.restricted.runs),
           r.restricted.runs > 0 ? share_interval_text(r.reached_share) : "-",
           spread_in(r.restricted, [](double value) { return format_count(std::llround(value)); }),
           std::isfinite(r.olympic_samples) ? format_count(std::llround(r.olympic_samples)) : "-"};
    for (const auto* const column : columns_shown(/*of_target=*/true)) row.push_back(spread_cell(r, *column));
  }
  return table;
}

// Which of two comes sooner to the target, runs that never do counted as the last.
page::Table target_test_table(const Comparison& c) {
  page::Table table{
      "sooner to the target, in samples: log-rank test, exact over all ways to divide the runs, with "
      "Holm's correction",
      {"a", "b", "p", "p (Holm)", "verdict"}};
  if (c.target_tests.size() > kMostDifferenceRows) return {};
  for (const TargetTest& test : c.target_tests) {
    const bool told = test.p_holm < verdict_level(c.terms);
    table.rows.push_back({c.terms.recipes[test.a], c.terms.recipes[test.b], number_text(test.p),
                          number_text(test.p_holm),
                          std::isnan(test.p) ? "not tested"
                          : told ? cat(c.terms.recipes[test.statistic > 0 ? test.b : test.a], " is sooner")
                                 : "not distinguishable with these seeds"});
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

page::Table sharpness_table(const Comparison& c) {
  page::Table table{cat("sharpness of the final weights, on ", format_count(kSharpnessSamples),
                        " samples of the training data in evaluation mode and fp32"),
                    {"recipe"}};
  for (const SharpnessFigure& figure : sharpness_figures()) table.header.emplace_back(figure.heading);
  for (size_t i = 0; i < c.recipes.size(); ++i) {
    const RecipeFigures& r = c.recipes[i];
    if (r.sharpness.empty()) continue;
    table.rows.push_back({c.terms.recipes[i]});
    for (const Spread& spread : r.sharpness) table.rows.back().push_back(spread_text(spread));
  }
  return table;
}

std::string p_cell(const Difference& d) {
  using Verdict = Difference::Verdict;
  if (d.verdict == Verdict::kNotComparable) return "not comparable";
  if (d.verdict == Verdict::kNoSpread) return "no spread";
  if (d.verdict == Verdict::kEquivalent) return cat(brief(d.p_holm, 2), " ≈");
  if (d.verdict == Verdict::kRunsMissing) return "runs missing";
  if (!std::isfinite(d.p_holm)) return "-";
  if (d.verdict == Verdict::kNotDistinguishable) return brief(d.p_holm, 2);
  return cat(brief(d.p_holm, 2), d.verdict == Verdict::kWorse ? " ▲" : " ▼");
}

// The corrected p of each pair on an axis, the first of a pair downwards.
page::Table p_matrix(const Comparison& c, FairAxis axis) {
  page::Table table{cat("p (Holm) of pairs, ", place_text(c, axis),
                        "; ▲ the row's recipe is better, ▼ the column's, ≈ the same within the margin"),
                    {""}};
  std::vector<size_t> columns;
  for (const Difference& d : c.differences) {
    if (d.axis == axis && std::ranges::find(columns, d.b) == columns.end()) columns.push_back(d.b);
  }
  for (const size_t column : columns) table.header.push_back(c.terms.recipes[column]);
  std::map<size_t, std::vector<std::string>> rows;
  for (const Difference& d : c.differences) {
    if (d.axis != axis) continue;
    std::vector<std::string>& row = rows.try_emplace(d.a, columns.size() + 1).first->second;
    row[0] = c.terms.recipes[d.a];
    row[1 + static_cast<size_t>(std::ranges::find(columns, d.b) - columns.begin())] = p_cell(d);
  }
  for (auto& [recipe, row] : rows) table.rows.push_back(std::move(row));
  return table;
}

std::vector<page::Table> p_matrices(const Comparison& c) {
  std::vector<page::Table> tables;
  if (c.differences.size() <= kMostDifferenceRows) return tables;
  for (const FairAxis axis : axes_of(c)) tables.push_back(p_matrix(c, axis));
  return tables;
}

page::Table difference_table(const Comparison& c) {
  if (c.differences.size() > kMostDifferenceRows) return {};
  page::Table table{cat("differences: b − a, with ", c.terms.paired ? "the paired" : "Welch's",
                        " test and Holm's correction"),
                    headings_of(difference_columns())};
  for (const Difference& d : c.differences)
    table.rows.push_back(table_row(difference_columns(), {c.terms, d}));
  return table;
}

std::string estimate_text(const Estimate& e, std::string (*format)(double)) {
  if (!std::isfinite(e.value)) return "-";
  if (!std::isfinite(e.interval.low)) return format(e.value);
  return cat(format(e.value), " (", format(e.interval.low), " to ", format(e.interval.high), ")");
}

std::string percent_text(double share) {
  return format_percent(share, 0);
}

// How large differences are, and what pairing by seed or a margin says of them.
page::Table effect_table(const Comparison& c) {
  if (c.differences.size() > kMostDifferenceRows) return {};
  page::Table table{"how large differences are (95 % intervals)",
                    {"a", "b", "at equal", "b − a in deviations (Hedges' g)", "a run of b is better",
                     "r by seed", "p Welch", "p paired"}};
  if (c.terms.margin) table.header.push_back(cat("p of ± ", shortest(*c.terms.margin), " or more"));
  for (const Difference& d : c.differences) {
    if (std::isnan(d.effect.value)) continue;
    table.rows.push_back({c.terms.recipes[d.a], c.terms.recipes[d.b], words_of(d.axis),
                          estimate_text(d.effect, number_text), estimate_text(d.chance_better, percent_text),
                          number_text(d.correlation), number_text(d.p_welch), number_text(d.p_paired)});
    if (c.terms.margin) table.rows.back().push_back(number_text(d.p_equivalent));
  }
  return table;
}

page::Table plan_table(const Comparison& c) {
  page::Table table{"plans", {"recipe"}};
  for (const auto& [key, heading] : kPlanColumns) {
    if (*heading != 0) table.header.emplace_back(heading);
  }
  for (size_t i = 0; i < c.recipes.size(); ++i) {
    std::vector<std::string>& row = table.rows.emplace_back();
    row.push_back(c.terms.recipes[i]);
    for (const auto& [key, heading] : kPlanColumns) {
      if (*heading != 0) row.push_back(plan_cell(c.recipes[i].plan, key));
    }
  }
  return table;
}

// Of many recipes the table would be too wide to be read; compare.json has the keys.
page::Table key_table(const Comparison& c) {
  constexpr size_t kMostColumns = 12;
  if (c.recipes.size() > kMostColumns) return {};
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

// What the logs of runs warned of. Numbers differ from seed to seed; the first of a kind stands for all of
// it.
page::Table warning_table(const Comparison& c) {
  page::Table table{"warnings of runs", {"recipe", "runs", "warning"}};
  for (const std::string& recipe : c.terms.recipes) {
    std::map<std::string, std::pair<std::string, int64_t>>
        kinds;  // by the text without digits: first text, runs
    for (const RunOutcome& run : c.runs) {
      if (run.recipe != recipe) continue;
      std::set<std::string> of_run;
      for (const std::string& text : run.warnings) {
        std::string kind = text;
        std::erase_if(kind, is_digit);
        if (of_run.insert(kind).second) ++kinds.try_emplace(kind, text, 0).first->second.second;
      }
    }
    for (const auto& [kind, warning] : kinds)
      table.rows.push_back({recipe, cat(warning.second), warning.first});
  }
  return table;
}

// What each recipe tried of the key that was tuned; the best is marked.
page::Table tuning_table(const Comparison& c) {
  if (!c.terms.tuned) return {};
  const Tuning& tuned = *c.terms.tuned;
  page::Table table{
      cat("tuning of ", tuned.key, ": ", c.terms.figure, " at the end of one run each, seed ", tuned.seed),
      {"recipe", "tried", c.terms.figure, ""}};
  for (size_t i = 0; i < tuned.recipes.size(); ++i) {
    const TunedRecipe& recipe = tuned.recipes[i];
    for (size_t trial = 0; trial < recipe.tried.size(); ++trial) {
      const TunedValue& each = recipe.tried[trial];
      table.rows.push_back({c.terms.recipes[i], each.value,
                            std::isfinite(each.figure) ? brief(each.figure) : "failed",
                            trial != recipe.best ? ""
                            : recipe.at_edge     ? "best, at the edge"
                                                 : "best"});
    }
  }
  return table;
}

// By all points of a grid: how much of what differs each key accounts for.
page::Table effects_of_keys(const Comparison& c) {
  page::Table table{cat("which keys mattered: shares of the variance of ", c.terms.figure, " ",
                        place_text(c, FairAxis::kSamples)),
                    {"key", "share", "lowest to highest mean of its values"}};
  for (const KeyEffect& effect : key_effects(c)) {
    table.rows.push_back({effect.what, format_percent(effect.share),
                          std::isfinite(effect.least)
                              ? cat(number_text(effect.least), " to ", number_text(effect.most))
                              : ""});
    table.bars.push_back(effect.share);
  }
  return table;
}

// Several data sets taken together.
page::Table task_table(const Comparison& c) {
  const DifferingKey* const axis = task_axis(c);
  if (axis == nullptr || !is_share(c)) return {};
  page::Table table{
      cat("over the values of ", axis->path, ": interquartile mean of ", c.terms.figure, " ",
          place_text(c, FairAxis::kSamples)),
      {"recipe", "tasks", "runs", "interquartile mean", "95 % interval (stratified bootstrap)"}};
  for (const TaskGroup& group : groups_over_tasks(c)) {
    const bool whole = group.counted() == group.runs && group.runs > 0;
    const Estimate estimate = whole ? interquartile_mean(group.values) : kNoEstimate;
    table.rows.push_back(
        {group.label, cat(group.values.size()), cat(group.counted(), " of ", group.runs),
         whole ? number_text(estimate.value) : "runs missing",
         whole ? cat(number_text(estimate.interval.low), " to ", number_text(estimate.interval.high)) : "-"});
  }
  return table;
}

// What was chosen by validation data, on data that chose nothing.
page::Table test_table(const Comparison& c) {
  page::Table table{"test data, by the final weights of what was chosen: mean ± standard deviation",
                    {"recipe", "runs", cat(c.terms.figure, " on the test data"), "95 % interval of the mean",
                     cat(c.terms.figure, " at the end on the validation data")}};
  for (size_t i = 0; i < c.recipes.size(); ++i) {
    std::vector<double> values;
    for (const TestReading& each : c.terms.test) {
      const auto figure = each.figures.find(c.terms.figure);
      if (each.recipe == i && figure != each.figures.end() && std::isfinite(figure->second))
        values.push_back(figure->second);
    }
    if (values.empty()) continue;
    const ConfidenceInterval interval = mean_interval(values);
    table.rows.push_back(
        {c.terms.recipes[i], cat(values.size()), spread_text(spread_of(values, std::ssize(values))),
         values.size() > 1 ? cat(number_text(interval.low), " to ", number_text(interval.high)) : "-",
         spread_text(c.recipes[i].final)});
  }
  return table;
}

}  // namespace

std::string spread_text(const Spread& spread) {
  return spread_in(spread, number_text);
}

std::vector<page::Table> tables_of(const Comparison& c) {
  std::vector<page::Table> tables = {figures_table(c)};
  for (const FairAxis axis : axes_of(c)) tables.push_back(grid_table(c, axis));
  for (page::Table& table : p_matrices(c)) tables.push_back(std::move(table));
  for (page::Table& table :
       std::vector{test_table(c), task_table(c), effects_of_keys(c), halving_table(c), tuning_table(c),
                   target_table(c), target_test_table(c), difference_table(c), effect_table(c), gap_table(c),
                   sharpness_table(c), plan_table(c), key_table(c), failure_table(c), warning_table(c)})
    tables.push_back(std::move(table));
  std::erase_if(tables, [](const page::Table& table) { return table.rows.empty(); });
  return tables;
}

}  // namespace autotrain
