#pragma once

#include <string>

#include "report/page.h"
#include "sweep/sweep.h"

namespace autotrain {

/// Every batch with its latency, throughput and memory.
page::Table point_cells(const SweepVariant& variant);

/// "23.7", "≥ 24.9" of a lower bound, "≤ 8" of an upper one.
std::string knee_text(const Knee& knee);

/// Prediction, measurement and their ratio, a row for each variant whose model was measured.
page::Table roofline_cells(const Sweep& sweep);

/// Where the time of the shortest latency and of the best throughput goes, for each variant.
page::Table time_cells(const Sweep& sweep);

/// The largest batch in the band, a row for each variant of which it is known.
page::Table largest_cells(const Sweep& sweep);

/// Inference from the data set to outputs beside the forward pass alone, a row for each batch of which it is
/// known: samples a second, of the whole and of each stage by itself.
page::Table end_to_end_cells(const Sweep& sweep);

/// What was counted, a row for each operator that multiplies, and one for all others together.
page::Table operator_cells(const SweepVariant& variant);

}  // namespace autotrain
