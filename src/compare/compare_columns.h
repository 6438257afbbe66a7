#pragma once

#include <array>
#include <string>

#include "compare/comparison.h"
#include "report/column.h"

namespace autotrain {

/// A run beside all that it is compared with.
struct ComparedRun {
  const Comparison& comparison;
  const RunOutcome& run;
};

/// The figures of a run that was evaluated, each a column of compare.csv. Their spreads over the seeds are in
/// RecipeFigures::spreads, and so in compare.json and in the tables. Names that begin with "target_" are of
/// the way to the target, with "at_equal_" of where runs are compared.
const ColumnsOf<ComparedRun>& run_columns();

/// The spread of the column of that name. Precondition: there is one.
const Spread& spread_of(const RecipeFigures& figures, const std::string& name);

/// A run as compare.json has it.
const ColumnsOf<RunOutcome>& outcome_columns();

struct ComparedPair {
  const ComparisonTerms& terms;
  const Difference& difference;
};

/// The difference of two recipes, as compare.json and its table have it.
const ColumnsOf<ComparedPair>& difference_columns();

/// What compare.csv and the table of plans have of RunOutcome::plan.
struct PlanColumn {
  const char* key;
  const char* heading;  ///< "": the table leaves it out
};
inline constexpr std::array kPlanColumns = {PlanColumn{"device_name", ""},
                                            PlanColumn{"precision", "precision"},
                                            PlanColumn{"effective_batch", "effective batch"},
                                            PlanColumn{"micro_batch", "micro-batch"},
                                            PlanColumn{"window", "window"},
                                            PlanColumn{"lr", "lr"},
                                            PlanColumn{"program", ""}};

}  // namespace autotrain
