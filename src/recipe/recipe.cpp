#include "autotrain/recipe.h"

namespace autotrain {

bool Recipe::operator==(const Recipe& o) const {
  return name == o.name && seed == o.seed && data == o.data && model == o.model && freeze == o.freeze &&
         weights == o.weights && lora == o.lora && loss == o.loss && optimizer == o.optimizer &&
         schedule == o.schedule && average == o.average && batch == o.batch && stop == o.stop &&
         divergence == o.divergence && evaluation == o.evaluation && execution == o.execution &&
         checkpoint == o.checkpoint && report == o.report && sweep == o.sweep;
}

}  // namespace autotrain
