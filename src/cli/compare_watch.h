#pragma once

#include <string>
#include <vector>

#include "compare/compare.h"
#include "report/live_text.h"

namespace autotrain {

/// Shows a person how far a comparison is: a table that is redrawn on a terminal, else a line for each run.
class CompareWatch {
 public:
  /// @param room that its lines of the log are of; must outlive it.
  CompareWatch(const char* room, const CompareOptions& options, bool talks);

  /// Has the comparison tell it. It must outlive the comparison.
  void follow(CompareOptions& options);

 private:
  void on_outcome(const RunOutcome& outcome, bool kept);
  void on_progress(const StudyProgress& progress);
  std::string figure_of(const RunOutcome& outcome) const;

  const char* const room_;
  const bool talks_;
  LiveText live_;
  ComparisonTerms terms_;
  size_t done_ = 0, total_ = 0;
  std::vector<RunOutcome> outcomes_;
  Comparison so_far_;
  std::string left_;
};

}  // namespace autotrain
