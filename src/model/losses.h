#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "autotrain/task.h"
#include "recipe/keys.h"

namespace autotrain {

struct LossRow {
  ChoiceSpec spec;
  std::function<Loss(const Parameters&)> make;

  /// What metrics need to know of its targets; null: its metrics are its own, and no others can be asked for.
  std::function<MetricOptions(const Parameters&)> metric_options = nullptr;

  bool finds_boxes = false;   ///< outputs are those of model yolo
  bool is_users_own = false;  ///< code of the program's own computes it
};

/// The name of the loss that is the model's own.
inline constexpr const char* kModelsOwnLoss = "model";

/// Every loss a recipe can name.
const std::vector<LossRow>& loss_table();

/// Adds a part of the program's own. To be called before anything refers to a row.
void add_row(LossRow row);

/// @throws Error(kBadRecipe) when there is no such loss.
const LossRow& find_loss(const std::string& name);

/// What the targets of a loss are; nothing where it does not say.
std::optional<MetricOptions> targets_of_loss(const Choice& choice);

/// Which targets have a weight in the loss: bool, of their shape. Undefined where all have.
/// @param targets as data sets give them.
torch::Tensor counted_targets(const Choice& choice, const torch::Tensor& targets);

/// What takes the weight of those that have none: "loss.ignore_index 3".
std::string what_does_not_count(const Choice& choice);

LossRow detection_row();
LossRow yolo_loss_row();

/// @param metrics names of what evaluations measure beside the loss; unset: what goes with it by default.
/// @throws Error(kBadRecipe) when there is no such loss, or a metric does not go with it.
Loss make_loss(const Choice& choice, const std::optional<std::vector<std::string>>& metrics = {});

}  // namespace autotrain
