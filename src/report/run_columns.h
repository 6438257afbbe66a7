#pragma once

#include <map>
#include <string>
#include <vector>

#include "autotrain/report.h"
#include "report/column.h"

namespace autotrain {

/// The figures of an update: metrics.jsonl, TensorBoard, the page's plots and the line of progress have them.
const ColumnsOf<UpdateRecord>& update_columns();

/// What is known of an evaluation beside its figures: metrics.jsonl, evaluations.csv and those who read them
/// have it.
const ColumnsOf<EvaluationRecord>& evaluation_columns();

/// How a run ended, and what its plan allowed.
struct RunEnd : Summary {
  std::string plan = {};     ///< in a line; "": it is told elsewhere
  int64_t budget_bytes = 0;  ///< 0: not known
};

/// The figures of a run: summary.json has them, and in words the page and the terminal.
const ColumnsOf<RunEnd>& summary_columns();

/// {heading, words} of all that is worth telling of a run's end.
std::vector<std::vector<std::string>> in_words(const RunEnd& end);

/// "accuracy 0.8312 · loss 0.4600", without "update".
std::string figures_text(const std::map<std::string, double>& figures);

}  // namespace autotrain
