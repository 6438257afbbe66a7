#pragma once

#include <string>
#include <vector>

#include "compare/comparison.h"
#include "report/page.h"

namespace autotrain {

/// What there is to say of a comparison, most important first; tables that would be empty are left out.
std::vector<page::Table> tables_of(const Comparison& comparison);

/// Which recipe is best after equal samples, and which cannot be told from it: what a page opens with.
std::string answer_of(const Comparison& comparison);

/// What a reader should know beside the tables, in sentences: the answer, the verdicts where they are few,
/// why it is not fair, what few seeds do.
std::vector<std::string> notes_of(const Comparison& comparison);

/// "training loss": the axis as words.
std::string words_of(FairAxis axis);

/// "after 120,000 samples": where runs are compared on an axis.
std::string place_text(const Comparison& comparison, FairAxis axis);

/// The values of a point's axes other than `leaving_out`, as words: "lars, lr 0.1"; "" where there are none.
std::string rest_of_axes(const Comparison& comparison, size_t recipe, const std::string& leaving_out);

/// A number in a few digits; "-" of none.
std::string number_text(double value);

/// What a run's plan in brief says under a key, as a cell of a table has it.
std::string plan_cell(const nlohmann::ordered_json& plan, const char* key);

/// Whether successive halving came to a choice.
bool leaves_out(const Comparison& comparison);

/// "0.8912 ± 0.0021": mean and standard deviation; "-" of no value.
std::string spread_text(const Spread& spread);

/// "not distinguishable with these seeds; about 23 of each would be needed".
std::string verdict_text(const Difference& difference, const ComparisonTerms& terms);

}  // namespace autotrain
