#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

namespace autotrain {

/// A run's losses up to a place, summed over its samples: the difference of two sums, by that of their
/// samples, is the mean loss in between.
struct LossSum {
  int64_t samples = 0;
  double sum = 0;
};

/// From the beginning, ascending.
using LossSums = std::vector<LossSum>;

/// The sums of a run's updates, at most `most` of them, evenly spaced in samples. After a rollback only what
/// replaced the lost part counts.
LossSums read_loss_sums(const std::filesystem::path& metrics, size_t most = 512);

nlohmann::ordered_json loss_sums_to_json(const LossSums& sums);
LossSums loss_sums_from_json(const nlohmann::ordered_json& json);

/// The mean loss of the last `window` samples up to a place; nothing where the run has not so many before it,
/// or ends before.
std::optional<double> smoothed_loss(const LossSums& sums, double place, double window);

/// The first smoothed loss of a run; nothing where it has not so many samples.
std::optional<double> first_loss(const LossSums& sums, double window);

/// The smoothed loss of a run at its end; nothing where it has not so many samples.
std::optional<double> end_loss(const LossSums& sums, double window);

/// The first place at which the smoothed loss is at most `loss`, on the straight line between two sums;
/// nothing when it never is.
std::optional<double> place_of_loss(const LossSums& sums, double loss, double window);

}  // namespace autotrain
