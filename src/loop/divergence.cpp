#include "loop/divergence.h"

#include <cmath>

#include "autotrain/log.h"
#include "base/text.h"
#include "device/failure.h"
#include "loop/bad_values.h"
#include "plan/operation_trace.h"
#include "plan/scopes.h"
#include "step/precision.h"

namespace autotrain {
namespace {

// The window's samples once more, cut as it was, looking at what every operation makes of them.
std::string first_non_finite_layer(const Session& session, const QueuedUpdate& update) {
  Workbench& bench = session.bench;
  try {
    const torch::Device device = bench.device->torch_device();
    const BufferScope buffers(*bench.task);
    const WindowCut cut{update.samples, session.plan.micro_batch, bench.lanes};
    Loader loader(*bench.data.train, bench.stream,
                  endless_windows(*bench.data.train, bench.stream, cut, update.first),
                  {.prefetch = 0, .channels_last = bench.loader.channels_last});
    for (int64_t done = 0; done < cut.share();) {
      const std::optional<Batch> batch = loader.next();
      done += batch->samples;
      const OperationPlace place = first_non_finite(*bench.task, batch->to(device), session.plan.precision);
      if (!place.operation.empty()) return cat(place.module, " (", place.operation, ")");
    }
  } catch (const std::exception& error) {
    log::debug("trainer", cat("looking for the first layer failed: ", first_line(error)));
  }
  return "";
}

}  // namespace

AfterSkip after_skip(const UpdateOutcome& skipped, int64_t skips, const Recipe& recipe, Precision precision) {
  // The loss scaler of fp16 looks for the largest scale by overflowing now and then: that is no divergence.
  const bool by_the_scaler = scales_loss(precision) && std::isfinite(skipped.loss) &&
                             skipped.scale > recipe.execution.scaler.min_scale;
  const DivergencePolicy policy = recipe.divergence.policy;
  const bool at_once = policy == DivergencePolicy::kStop && !by_the_scaler;
  if (!at_once && skips < recipe.stop.max_skipped) return AfterSkip::kGoOn;
  return policy == DivergencePolicy::kRollback ? AfterSkip::kRollBack : AfterSkip::kEnd;
}

Error diverged(const Session& session, const QueuedUpdate& update, const UpdateOutcome& outcome,
               const std::string& why_here) {
  const RunState& state = session.state;
  const int64_t skips = state.position.consecutive_skips;
  const std::string gradient =
      update.first_non_finite.empty()
          ? ""
          : ", the gradient of " + update.first_non_finite + " is the first that is not";
  const std::string data = std::isfinite(outcome.loss) ? "" : first_bad_value(session.bench, update);
  const std::string layer = first_non_finite_layer(session, update);
  const std::string rolled =
      state.totals.rollbacks > 0 ? cat(", after ", state.totals.rollbacks, " rollbacks") : "";
  const bool rolls_back = session.recipe.divergence.policy == DivergencePolicy::kRollback;
  // The only one may be of the weights that failed.
  const bool kept_too_few = rolls_back && !why_here.empty() && session.recipe.checkpoint.keep == 1;
  return Error(
      ExitCode::kDiverged, cat("update ", state.position.updates + 1),
      cat(skips, skips == 1 ? " update was" : " updates in a row were", " not finite", rolled, why_here,
          "; loss ", outcome.loss, ", gradient norm ", outcome.grad_norm, gradient,
          update.first_buffer.empty()
              ? ""
              : cat(", the buffer ", update.first_buffer, " is the first that is not"),
          data.empty() ? "" : "\n  " + data,
          layer.empty() ? "" : "\n  first layer whose output is not finite: " + layer),
      cat(data.empty() ? "" : "correct that sample or leave it out; otherwise ",
          kept_too_few ? "set checkpoint.keep to 2, so that there is one to go back to; otherwise " : "",
          "lower optimizer.lr, add optimizer.clip_norm or schedule.warmup, or use "
          "execution.precision: fp32",
          rolls_back ? "" : ", or divergence.policy: rollback"));
}

}  // namespace autotrain
