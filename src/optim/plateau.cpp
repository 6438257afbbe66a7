#include "optim/plateau.h"

#include <algorithm>
#include <cmath>

#include "optim/schedule.h"

namespace autotrain {

void Plateau::follow(double value, bool lower_is_better, PlateauState& state) const {
  if (state.figure != figure) {  // a resume may follow another one
    state.figure = figure;
    state.best.reset();
  }
  const double gain = !state.best ? INFINITY : lower_is_better ? *state.best - value : value - *state.best;
  if (std::isfinite(value) && gain > threshold) {
    state.best = value;
    state.waited = 0;
  } else {
    ++state.waited;
  }
  if (state.cooling > 0) {
    --state.cooling;
    state.waited = 0;
  }
  if (state.waited < patience) return;
  state.factor = std::min(state.factor, std::max(state.factor * factor, least));
  state.cooling = cooldown;
  state.waited = 0;
}

std::optional<Plateau> plateau_of(const Recipe& recipe) {
  const ScheduleRow& row = find_schedule(recipe.schedule.shape.name);
  if (!row.spec.follows_evaluations) return std::nullopt;
  const Parameters p(recipe.schedule.shape, row.spec);
  const std::string figure = p.text("figure");
  return Plateau{.figure = figure.empty() ? recipe.evaluation.monitor : figure,
                 .factor = p.real("factor"),
                 .patience = p.integer("patience"),
                 .threshold = p.real("threshold"),
                 .cooldown = p.integer("cooldown"),
                 .least = p.real("least")};
}

}  // namespace autotrain
