#pragma once

#include <string>

#include "compare/comparison.h"

namespace autotrain {

/// The tables of a comparison, with its notes, for a text in Markdown (GitHub's pipe tables).
std::string comparison_to_markdown(const Comparison& comparison);

/// Gives the same tables to LaTeX, one `table` each, which use \toprule, \midrule and \bottomrule of the
/// package booktabs.
std::string comparison_to_latex(const Comparison& comparison);

/// Every evaluation of every run, a row each: recipe, seed, update, samples, seconds, epoch and all figures.
/// Curves, means and tests can be computed again from it.
std::string curves_to_csv(const Comparison& comparison);

}  // namespace autotrain
