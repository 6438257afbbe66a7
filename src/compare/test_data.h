#pragma once

#include <vector>

#include "compare/compare.h"
#include "compare/comparison.h"
#include "compare/run_order.h"

namespace autotrain {

/// Reads the recipes' test data by the final weights of the runs of the best recipe and of those that cannot
/// be told from it: only now, that the validation data have chosen. Each run is read in a process of its own,
/// in a folder `test-…` of the study, where what was read is kept.
/// @return nothing where none is the best, or one of these recipes has no test data, or has others than the
/// rest.
/// @throws Error as run_study does.
std::vector<TestReading> read_test_data(const CompareOptions& options, const std::vector<RunOrder>& orders,
                                        const Comparison& comparison);

}  // namespace autotrain
