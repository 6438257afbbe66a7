#pragma once

#include <string>

#include "plan/workbench.h"

namespace autotrain {

/// Whether a batch may be cut: what a comparison of one batch with its halves showed.
struct SplitVerdict {
  enum class Kind {
    kExact,       ///< the same gradient but for rounding
    kBatchNorm,   ///< batch normalisation: statistics are those of the micro-batch
    kRandom,      ///< the model draws random numbers that depend on the cut
    kMixes,       ///< samples influence each other
    kCarried,     ///< a pass leaves behind what changes the next one: the same samples again come to another
    kMean,        ///< the sum of losses is a mean: of half of the samples it is no smaller
    kClipped,     ///< the gradient is not proportional to that of the loss
    kPadding,     ///< what fills samples up to the longest of a micro-batch counts
    kNotChecked,  ///< there were too few samples, no memory, or no float32 for the comparison
  };
  Kind kind = Kind::kExact;
  double difference = 0;  ///< ‖g(2n) − g(n + n)‖ ÷ ‖g(2n)‖; for kClipped of the loss × 1024, ÷ 1024
  int64_t samples = 0;         ///< 2n
  std::string operation = {};  ///< first operation whose result differs: "aten::batch_norm"
  std::string module = {};     ///< the module it belongs to, or the last one with parameters before it

  /// One sentence for the log.
  std::string text() const;
};

/// Compares the gradient of a few samples at once with the sum over two halves, in float32, in training
/// mode with dropout modules off. Leaves no trace.
SplitVerdict check_split(Workbench& bench);

/// Whether the gradient of a few samples is proportional to that of their loss, which training scales, for
/// batches that are not cut: kClipped, kExact or kNotChecked. Leaves no trace.
SplitVerdict check_proportional(Workbench& bench);

}  // namespace autotrain
