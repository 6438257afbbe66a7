#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "autotrain/recipe.h"
#include "base/enum_names.h"

namespace autotrain {

/// An evaluation of a run and what the run had spent by then.
struct CurvePoint {
  int64_t update = 0;
  int64_t samples = 0;  ///< trained on
  double seconds = 0;   ///< spent on updates, not on searching or evaluating
  double epoch = 0;     ///< samples ÷ samples in the data set
  std::map<std::string, double> figures = {};
  int64_t evaluated = 0;  ///< samples that the figures are of; 0: not known
};

using Curve = std::vector<CurvePoint>;

/// What runs are made equal in.
enum class FairAxis {
  kSamples,
  kSeconds,
  kTrainingLoss,  ///< what was learned of the training data, however long that took
  kEnd,           ///< each at its own end
  kBest,          ///< each at its own best evaluation
};

constexpr auto enum_names(FairAxis) {
  return std::array{EnumName<FairAxis>{FairAxis::kSamples, "samples"},
                    EnumName<FairAxis>{FairAxis::kSeconds, "seconds"},
                    EnumName<FairAxis>{FairAxis::kTrainingLoss, "training_loss"},
                    EnumName<FairAxis>{FairAxis::kEnd, "end"}, EnumName<FairAxis>{FairAxis::kBest, "best"}};
}

/// A figure to be reached.
struct Target {
  std::string figure = {};
  double value = 0;
  bool at_most = false;  ///< else at least
};

/// The evaluations in the metrics file of a run. After a rollback only what replaced the lost part counts.
Curve read_curve(const std::filesystem::path& metrics);

nlohmann::ordered_json curve_to_json(const Curve& curve);
Curve curve_from_json(const nlohmann::ordered_json& json);

/// Where a point stands: samples or seconds; of equal training loss, samples.
double place_of(const CurvePoint& point, FairAxis axis);

/// The figure at a place, on the straight line between the evaluations around it; nothing before the first,
/// beyond the last, or where it is not finite.
std::optional<double> figure_at(const Curve& curve, const std::string& figure, FairAxis axis, double place);

/// How much of a run is done, from 0 to 1, by the limit of epochs, samples or updates that is nearest. Time
/// is no measure of it: a run that only minutes stop stays at 0.
double share_of_run(const StopRecipe& stop, const CurvePoint& point);

/// The first evaluation at which so much of the run was done, else the last one; null of an empty curve.
/// Points into `curve`.
const CurvePoint* at_share(const Curve& curve, const StopRecipe& stop, double share);

/// The evaluation at which a figure was best; null: it was finite at none. Points into `curve`.
const CurvePoint* best_of(const Curve& curve, const std::string& figure, bool lower_is_better);

/// The first evaluation that reached the target; null: none did. Points into `curve`.
const CurvePoint* first_reaching(const Curve& curve, const Target& target);

}  // namespace autotrain
