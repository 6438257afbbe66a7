#pragma once

#include <functional>
#include <vector>

#include "autotrain/task.h"
#include "recipe/keys.h"

namespace autotrain {

struct LossRow {
  ChoiceSpec spec;
  std::function<Loss(const Parameters&)> make;
};

/// Every loss a recipe can name.
const std::vector<LossRow>& loss_table();

LossRow detection_row();

/// @throws Error(kBadRecipe) when there is no such loss.
Loss make_loss(const Choice& choice);

}  // namespace autotrain
