#include "plan/lone_values.h"

#include <algorithm>
#include <string_view>

#include "autotrain/log.h"
#include "base/text.h"
#include "device/failure.h"
#include "device/generators.h"
#include "plan/scopes.h"
#include "step/loss_terms.h"
#include "step/operator_scope.h"
#include "step/operator_values.h"

namespace autotrain {
namespace {

// Of these operators, whether one takes its statistics of what it is given: the first truth among what it is
// given says so; the newest of them has none.
bool takes_statistics(std::string_view operation, c10::ArrayRef<const c10::IValue> inputs) {
  if (operation.find("batch_norm") == std::string_view::npos ||
      operation.find("backward") != std::string_view::npos)
    return false;
  const auto* const training = std::ranges::find_if(inputs, [](const auto& input) { return input.isBool(); });
  if (training != inputs.end()) return training->toBool();
  return operation.find("with_update") != std::string_view::npos;
}

// Finds the first that has one value for each channel.
struct SingleValues {
  void start(const at::RecordFunction& operation) {
    const c10::ArrayRef<const c10::IValue> inputs = inputs_of(operation);
    if (!found.empty() || inputs.empty() || !inputs[0].isTensor()) return;
    if (!takes_statistics(operation.name(), inputs)) return;
    const torch::Tensor& input = inputs[0].toTensor();
    if (input.defined() && input.dim() >= 2 && input.numel() == input.size(1))
      found = cat(operation.name(), " over ", input.sizes());
  }
  void end(const at::RecordFunction&) {}
  std::string found = {};
};

}  // namespace

std::string statistics_of_single_values(Workbench& bench, int64_t samples) {
  const GeneratorScope generators(bench.device->torch_device());
  const BufferScope buffers(*bench.task);
  SingleValues single;
  try {
    Loader loader(*bench.data.train, bench.stream, repeated({consecutive(0, samples)}),
                  {.prefetch = 0, .channels_last = bench.loader.channels_last});
    const Batch batch = bench.device->upload(*loader.next());
    const torch::AutoGradMode with_gradients(true);  // a loss may differentiate
    const OperatorScope<SingleValues> scope(single);
    loss_terms(*bench.task, batch);
  } catch (const Error& error) {
    if (is_of_single_values(error)) return single.found.empty() ? error.problem() : single.found;
    throw;
  } catch (const std::exception& error) {
    log::debug("plan", cat("a forward pass of ", samples, " samples failed: ", first_line(error)));
  }
  return single.found;
}

}  // namespace autotrain
