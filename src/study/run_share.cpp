#include "study/run_share.h"

namespace autotrain {

void pause_at(Trainer& trainer, const StopRecipe& stop, double share) {
  trainer.on_update([stop, share](const UpdateRecord& record) {
    const CurvePoint now{.update = record.update, .samples = record.samples, .epoch = record.epoch};
    return share_of_run(stop, now) >= share ? Flow::kStop : Flow::kContinue;
  });
}

}  // namespace autotrain
