#include "autotrain/recipe.h"

namespace autotrain {

bool Recipe::operator==(const Recipe& o) const {
  return name == o.name && seed == o.seed && data == o.data && model == o.model && loss == o.loss &&
         optimizer == o.optimizer && schedule == o.schedule && batch == o.batch && stop == o.stop &&
         evaluation == o.evaluation && execution == o.execution && checkpoint == o.checkpoint;
}

}  // namespace autotrain
