#pragma once

#include <cstddef>
#include <map>
#include <vector>

namespace autotrain {

/// How successive halving goes about it.
struct HalvingRules {
  double factor = 3;      ///< η > 1: of a rung's points one in so many goes on, to so many times the length
  size_t most_rungs = 4;  ///< at least 1; more would make the first one too short to tell anything
  size_t least_survivors = 1;  ///< of each rung's points so many go on, whatever η says; at least 1
};

/// Successive halving: every point is trained for a small share of its run, the best of them for a larger
/// one, and so on, until few have the whole run (Jamieson and Talwalkar 2016, arXiv:1502.07943; the rungs are
/// those of the most exploring bracket of Hyperband, Li et al. 2018, arXiv:1603.06560, algorithm 1).
///
/// This class decides; who uses it trains. A point is whatever is to be chosen, known by its number, and has
/// a run for each seed. The runs of a rung are rows of a study in the order of the rungs: `wanted` is
/// StudyOptions::wanted, and what comes of a row goes into `add`, kept results too, so that a study that was
/// stopped decides as it would have. A run goes on from its checkpoint (pause_at), so nothing is trained
/// twice.
class Halving {
 public:
  /// @param points, seeds at least 1.
  Halving(size_t points, size_t seeds, HalvingRules rules = {});

  /// At least 1, which is the whole run of every point.
  size_t rungs() const { return running_.size(); }

  /// The share of a whole run after which a rung ends: η^(rung + 1 − rungs), 1 for the last.
  double share(size_t rung) const;

  /// What a row of this rung trains beyond the rung before, as a share of a whole run.
  double work(size_t rung) const { return share(rung) - (rung == 0 ? 0 : share(rung - 1)); }

  /// The points that run in a rung, ascending. As long as a rung before is not over, the first of those that
  /// may: so many as there will be.
  const std::vector<size_t>& running(size_t rung) const { return running_.at(rung); }
  bool wanted(size_t rung, size_t point) const;

  /// What a run came to at the end of its rung.
  /// @param cost less is better; not finite: the run failed, or diverged.
  void add(size_t rung, size_t point, double cost);

  /// What all rows train if nothing fails, in whole runs.
  double planned_work() const;

  /// Whether all runs of a rung are there.
  bool is_over(size_t rung) const;

  /// Of the costs of a point's seeds in a rung, those of failed runs infinite; NaN as long as there are none.
  double median(size_t rung, size_t point) const;

 private:
  size_t part_of(size_t points) const;
  std::vector<size_t> survivors_of(size_t rung) const;

  const size_t seeds_;
  const HalvingRules rules_;
  std::vector<std::vector<size_t>> running_;                  // by rung
  std::vector<std::map<size_t, std::vector<double>>> costs_;  // by rung and point
};

}  // namespace autotrain
