#include "compare/compare_columns.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "compare/compare_tables.h"
#include "report/figures_json.h"

namespace autotrain {
namespace {

using Json = nlohmann::ordered_json;

const CurvePoint& end_of(const ComparedRun& of) {
  return of.run.curve.back();
}

Column<ComparedRun> at_equal(FairAxis axis) {
  return {.name = "at_equal_" + to_string(axis), .value = [axis](const ComparedRun& of) {
            return or_null(compared_value(of.comparison, of.run, axis));
          }};
}

template <class Value>
Column<ComparedRun> on_the_way(const std::string& name, const std::string& heading, Unit unit,
                               Value CurvePoint::*member) {
  return {.name = name, .heading = heading, .unit = unit, .value = [member](const ComparedRun& of) -> Json {
            const auto& target = of.comparison.terms.target;
            const CurvePoint* const reached = target ? first_reaching(of.run.curve, *target) : nullptr;
            return reached == nullptr ? Json(nullptr) : Json(reached->*member);
          }};
}

// Null: there is none.
template <class Text>
Column<RunOutcome> text_or_null(const std::string& name, Text RunOutcome::*member) {
  return {.name = name,
          .value = [member](const RunOutcome& run) -> Json {
            return (run.*member).empty() ? Json(nullptr) : Json(run.*member);
          },
          .read =
              [name, member](const Json& row, RunOutcome& run) {
                run.*member = row.at(name).is_null() ? "" : row.at(name).template get<std::string>();
              }};
}

std::string interval_text(const ComparedPair& of) {
  const ConfidenceInterval& interval = of.difference.interval;
  return std::isfinite(interval.low) ? cat(brief(interval.low), " to ", brief(interval.high)) : "-";
}

}  // namespace

const ColumnsOf<ComparedRun>& run_columns() {
  using R = ComparedRun;
  using enum Unit;
  static const ColumnsOf<R> columns = {
      {.name = "updates", .unit = kCount, .value = [](const R& of) -> Json { return end_of(of).update; }},
      {.name = "samples", .unit = kCount, .value = [](const R& of) -> Json { return end_of(of).samples; }},
      {.name = "training_seconds",
       .heading = "training time",
       .unit = kSeconds,
       .value = [](const R& of) -> Json { return end_of(of).seconds; }},
      {.name = "samples_per_second",
       .heading = "samples/s",
       .unit = kRate,
       .value = [](const R& of) -> Json { return of.run.samples_per_second; }},
      {.name = "peak_bytes",
       .heading = "peak memory",
       .unit = kBytes,
       .value = [](const R& of) -> Json { return of.run.peak_bytes; }},
      at_equal(FairAxis::kSamples),
      at_equal(FairAxis::kSeconds),
      at_equal(FairAxis::kTrainingLoss),
      {.name = "at_end",
       .value = [](const R& of) { return or_null(compared_value(of.comparison, of.run, FairAxis::kEnd)); }},
      {.name = "at_best",
       .value = [](const R& of) { return or_null(compared_value(of.comparison, of.run, FairAxis::kBest)); }},
      {.name = "samples_to_best",
       .unit = kCount,
       .value = [](const R& of) -> Json {
         const ComparisonTerms& terms = of.comparison.terms;
         const CurvePoint* const best = best_of(of.run.curve, terms.figure, terms.lower_is_better);
         return best == nullptr ? Json(nullptr) : Json(best->samples);
       }},
      {.name = "samples_to_training_loss",
       .unit = kCount,
       .value = [](const R& of) { return or_null(of.run.loss_place); }},
      on_the_way("target_updates", "updates", kCount, &CurvePoint::update),
      on_the_way("target_samples", "samples", kCount, &CurvePoint::samples),
      on_the_way("target_seconds", "training time", kSeconds, &CurvePoint::seconds),
  };
  return columns;
}

const Spread& spread_of(const RecipeFigures& figures, const std::string& name) {
  const auto& columns = run_columns();
  const auto found = std::ranges::find(columns, name, &Column<ComparedRun>::name);
  return figures.spreads.at(static_cast<size_t>(found - columns.begin()));
}

const ColumnsOf<RunOutcome>& outcome_columns() {
  using R = RunOutcome;
  static const ColumnsOf<R> columns = {
      column<R>("recipe", &R::recipe),
      column<R>("seed", &R::seed),
      {.name = "share",
       .value = [](const R& run) -> Json { return run.share; },
       .read = [](const Json& row, R& run) { run.share = row.value("share", 1.0); }},
      text_or_null("failure", &R::failure),
      {.name = "unfinished",
       .value = [](const R& run) { return run.unfinished.empty() ? Json(nullptr) : Json(run.unfinished); },
       .read = [](const Json& row, R& run) { run.unfinished = text_in(row, "unfinished"); }},
      column<R>("code", &R::code),
      column<R>("plan", &R::plan),
      column<R>("samples_per_second", &R::samples_per_second),
      column<R>("peak_bytes", &R::peak_bytes),
      {.name = "curve",
       .value = [](const R& run) { return curve_to_json(run.curve); },
       .read = [](const Json& row, R& run) { run.curve = curve_from_json(row.at("curve")); }},
      {.name = "losses",
       .value = [](const R& run) { return loss_sums_to_json(run.losses); },
       .read = [](const Json& row,
                  R& run) { run.losses = loss_sums_from_json(row.value("losses", Json::array())); }},
      column<R>("training_set", &R::training_set),
      {.name = "sharpness",
       .value =
           [](const R& run) { return run.sharpness ? sharpness_to_json(*run.sharpness) : Json(nullptr); },
       .read =
           [](const Json& row, R& run) {
             if (const Json sharpness = row.value("sharpness", Json()); !sharpness.is_null())
               run.sharpness = sharpness_from_json(sharpness);
           }},
      column<R>("figure_kinds", &R::figure_kinds),
      {.name = "warnings",
       .value = [](const R& run) -> Json { return run.warnings; },
       .read = [](const Json& row,
                  R& run) { run.warnings = row.value("warnings", std::vector<std::string>()); }},
  };
  return columns;
}

const ColumnsOf<ComparedPair>& difference_columns() {
  using P = ComparedPair;
  static const ColumnsOf<P> columns = {
      {.name = "a",
       .heading = "a",
       .value = [](const P& of) -> Json { return of.terms.recipes[of.difference.a]; }},
      {.name = "b",
       .heading = "b",
       .value = [](const P& of) -> Json { return of.terms.recipes[of.difference.b]; }},
      {.name = "at_equal",
       .heading = "at equal",
       .value = [](const P& of) -> Json { return to_string(of.difference.axis); },
       .text = [](const P& of) { return words_of(of.difference.axis); }},
      {.name = "b_minus_a",
       .heading = "b − a",
       .value = [](const P& of) -> Json { return of.difference.mean; }},
      {.name = "low",
       .heading = "95 % interval",
       .value = [](const P& of) -> Json { return of.difference.interval.low; },
       .text = interval_text},
      {.name = "high", .value = [](const P& of) -> Json { return of.difference.interval.high; }},
      {.name = "p", .heading = "p", .value = [](const P& of) -> Json { return of.difference.p; }},
      {.name = "p_holm",
       .heading = "p (Holm)",
       .value = [](const P& of) -> Json { return of.difference.p_holm; }},
      {.name = "b_is",
       .heading = "verdict",
       .value = [](const P& of) -> Json { return to_string(of.difference.verdict); },
       .text = [](const P& of) { return verdict_text(of.difference, of.terms); }},
      {.name = "p_welch", .value = [](const P& of) -> Json { return of.difference.p_welch; }},
      {.name = "p_paired", .value = [](const P& of) -> Json { return of.difference.p_paired; }},
      {.name = "correlation", .value = [](const P& of) -> Json { return of.difference.correlation; }},
      {.name = "hedges_g", .value = [](const P& of) -> Json { return of.difference.effect.value; }},
      {.name = "hedges_g_low",
       .value = [](const P& of) -> Json { return of.difference.effect.interval.low; }},
      {.name = "hedges_g_high",
       .value = [](const P& of) -> Json { return of.difference.effect.interval.high; }},
      {.name = "chance_b_better",
       .value = [](const P& of) -> Json { return of.difference.chance_better.value; }},
      {.name = "chance_b_better_low",
       .value = [](const P& of) -> Json { return of.difference.chance_better.interval.low; }},
      {.name = "chance_b_better_high",
       .value = [](const P& of) -> Json { return of.difference.chance_better.interval.high; }},
      {.name = "p_equivalent", .value = [](const P& of) -> Json { return of.difference.p_equivalent; }},
      {.name = "runs_needed", .value = [](const P& of) { return or_null(of.difference.runs_needed); }},
      {.name = "why",
       .value =
           [](const P& of) {
             return of.difference.reason.empty() ? Json(nullptr) : Json(of.difference.reason);
           }},
  };
  return columns;
}

}  // namespace autotrain
