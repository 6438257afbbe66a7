#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "autotrain/report.h"

namespace autotrain {

/// What a window tells of its gradient's noise: squared norms of the mean gradients of some of its
/// micro-batches and of the whole. Mean gradients are those of Σ losses ÷ Σ weights.
struct WindowNorms {
  double first_squares = 0;  ///< Σ weight × squared norm, over the first micro-batch of every lane
  double first_weight = 0;   ///< of these micro-batches together
  double firsts = 0;         ///< how many they are
  double square = 0;         ///< squared norm of the whole window, without penalties and before clipping
  double weight = 0;         ///< of the whole window
};

/// Unbiased estimates from one window; either may be negative.
struct GradientMoments {
  double trace = 0;   ///< of the covariance of one sample's gradient
  double square = 0;  ///< squared norm of the true gradient
};

/// The estimates by two sizes of McCandlish et al. 2018 (arXiv:1812.06162, appendix A.1): the mean gradient
/// of weight b has a squared norm of |G|² + tr Σ ÷ b on average. So R micro-batches of weight v together have
/// Σ b|g_b|² = v|G|² + R tr Σ, whatever their sizes, and the window of weight W has |g_W|² = |G|² + tr Σ ÷ W,
/// which gives tr Σ = (Σ b|g_b|² − v|g_W|²) ÷ (R − v ÷ W) and |G|² = |g_W|² − tr Σ ÷ W.
///
/// @param samples of the window; a sample has the window's mean weight.
/// @return nothing where the micro-batch is all of the window, or a number is not finite.
std::optional<GradientMoments> moments_of(const WindowNorms& window, int64_t samples);

/// One window in so many has its norms taken, and stands for all of them.
struct NoiseStrides {
  int64_t plain = 1;
  int64_t preconditioned = 16;  ///< in the optimizer's metric, whose norms also read the second moment
};

/// How seldom windows are measured as a run gets longer. All of the first 1,024 are; then each doubling of
/// the run has as many measured ones as the one before, until it is one in 16. In the optimizer's metric it
/// is one in 16 of the first 4,096, and then fewer likewise, until it is one in 128.
///
/// @param window counted from the first one that could be measured, as all ranks and a resumed run count it.
NoiseStrides noise_strides(int64_t window);

/// The last one of every stride: in a run's first windows the optimizer has learned no metric yet.
constexpr bool is_measured(int64_t window, int64_t stride) {
  return window % stride == stride - 1;
}

inline constexpr size_t kMostNoiseBlocks = 64;  ///< even

/// The estimates of a run's updates, summed in blocks of equally many, at most kMostNoiseBlocks of them: when
/// there would be more, neighbours become one.
struct NoiseBlocks {
  int64_t updates_each = 1;  ///< a block that stands for so many is full

  /// Fewer than twice as many: windows that are lost shift the strides against the blocks.
  int64_t updates_in_last = 0;

  std::vector<double> traces = {};  ///< sum of each block
  std::vector<double> squares = {};
  bool operator==(const NoiseBlocks&) const = default;

  /// Whether the fields agree, as they do unless they were read from a damaged file.
  bool sound() const;

  /// @param updates that this one stands for, as the only one of them that was measured. Where that is more
  /// than a block has, most of the run went by without: what it began with is forgotten.
  void add(const GradientMoments& update, int64_t updates = 1);

  /// tr Σ ÷ |G|² over the later half of the updates so far, because training changes both, with the 95 %
  /// interval of a ratio of two means that go together (Fieller 1954), from how the blocks differ. Where the
  /// interval of |G|² holds 0 there is a lower bound only. A constant number of operations.
  /// @return nothing before 16 blocks are full, or where nothing can be said.
  std::optional<NoiseScale> scale() const;
};

}  // namespace autotrain
