#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace autotrain {

/// A data set implements this, too, where samples have one class each that is known without reading them.
class Classified {
 public:
  virtual ~Classified() = default;

  /// The class of each sample, in their order; −1: none. Empty: they have no classes, or several each.
  virtual std::vector<int64_t> classes_of_samples() const = 0;
};

/// A data set implements this, too, where its own files may say how much each sample counts.
class Weighted {
 public:
  virtual ~Weighted() = default;

  /// What each sample counts, in their order, finite and ≥ 0; empty where the files do not say it.
  virtual const std::vector<double>& weights_of_samples() const = 0;

  /// "rows.csv: importance": where they say it.
  virtual std::string source_of_weights() const = 0;
};

/// How often an epoch sees each sample, as many times in all as there are samples, by their weights: a sample
/// of weight w stands in an epoch of n samples n·w ÷ Σw times, rounded down or up. Which of the two changes
/// from epoch to epoch, such that over the epochs each is seen as often as its weight says, to one time.
class Balance {
 public:
  /// @param weights of the samples, each finite and ≥ 0, some above 0.
  /// @param groups of the samples: an epoch sees each group as often as its weights say, to one time.
  Balance(const std::vector<double>& weights, const std::vector<int64_t>& groups, uint64_t seed);

  struct Draw {
    int64_t sample;
    int64_t copy;  ///< how often this epoch has had it before
  };

  /// Returns the sample that stands at `slot` of an epoch, both counted from 0; the slots of a sample are
  /// neighbours.
  Draw draw(int64_t epoch, int64_t slot) const;

  /// A number that differs where other samples are drawn.
  uint64_t fingerprint() const;

  int64_t size() const { return static_cast<int64_t>(order_.size()); }

 private:
  double shift(int64_t epoch) const;

  uint64_t seed_;
  std::vector<int64_t> order_;  // samples, group after group
  std::vector<double> ends_;    // slots before the end of each of them, by the weights alone
};

/// The weight of each sample such that all classes weigh alike; 0 where it has none.
std::vector<double> weights_by_class(const std::vector<int64_t>& classes);

}  // namespace autotrain
