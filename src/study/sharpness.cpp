#include "study/sharpness.h"

#include <algorithm>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/interrupt.h"
#include "base/random.h"
#include "base/text.h"
#include "data/loader.h"
#include "device/failure.h"
#include "loop/out_of_memory.h"
#include "plan/scopes.h"
#include "setup/assembly.h"
#include "step/loss_surface.h"
#include "study/training_data.h"

namespace autotrain {
namespace {

constexpr uint64_t kSeed = 1;  // of the samples and of all vectors: runs are compared with each other
constexpr int64_t kDirections = 8;

std::vector<Piece> pieces_of(int64_t samples, int64_t micro_batch) {
  std::vector<Piece> pieces;
  for (int64_t first = 0; first < samples; first += micro_batch)
    pieces.push_back(consecutive(first, std::min(micro_batch, samples - first)));
  return pieces;
}

// Calls `use` with the same samples each time.
std::function<void(const LossSurface::Use&)> batches_of(Workbench& bench, int64_t samples,
                                                        int64_t micro_batch) {
  return [&bench, samples, pieces = pieces_of(samples, micro_batch)](const LossSurface::Use& use) {
    const Dataset& data = *bench.data.validation;
    auto next = pieces.begin();
    const auto source = [&]() -> std::optional<Piece> {
      return next == pieces.end() ? std::nullopt : std::optional(*next++);
    };
    Loader loader(data, Stream(kSeed, data.size(), /*shuffle=*/true), source, bench.loader);
    while (const std::optional<Batch> batch = loader.next()) {
      stop_if_interrupted("sharpness", "stopped by a signal");
      use(bench.device->upload(*batch));
    }
  };
}

Sharpness measured(LossSurface& surface, int64_t samples) {
  Sharpness s{.samples = samples, .loss = surface.loss()};
  const torch::Tensor weights = surface.weights();
  const Eigenvalue largest = largest_eigenvalue(
      [&](const torch::Tensor& v) { return surface.times_hessian(v); }, weights, {.seed = kSeed});
  s.eigenvalue = largest.value;
  s.eigenvalue_error = largest.error;
  s.products = largest.products;
  s.square = weights.to(torch::kFloat64).square().sum().item<double>();
  for (const double step : kSharpnessSteps) {
    std::vector<double>& rises = s.rises.emplace_back();
    for (int64_t i = 0; i < kDirections; ++i) {
      const torch::Tensor direction = surface.relative_direction(derive_key(kSeed, i));
      rises.push_back(surface.loss_along(direction, step) - s.loss);
    }
  }
  return s;
}

// Of a pass that is differentiated twice memory holds some four times what one of training does.
Sharpness measured(Workbench& bench, const BatchPlan& plan) {
  const EvaluationMode mode(bench.task->module());
  const int64_t samples = std::min(kSharpnessSamples, bench.data.validation->size());
  int64_t micro_batch = std::clamp(plan.micro_batch / 4, int64_t{1}, samples);
  for (Attempts attempts;;) {
    try {
      LossSurface surface(*bench.task, batches_of(bench, samples, micro_batch));
      return measured(surface, samples);
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      if (!lacks_memory(error)) throw;
      log::info("study", cat("sharpness: no memory for micro-batches of ", micro_batch));
      const int64_t next = attempts.after_failure(micro_batch);
      if (next == 0) throw;
      micro_batch = next;
    }
    bench.device->memory().empty_cache();
  }
}

}  // namespace

Sharpness measure_sharpness(const TrainedRun& run) {
  const auto unavailable = [](const std::string& why) {
    log::warn("study", "sharpness is not available: " + why);
    return Sharpness{.unavailable = why};
  };
  try {
    Recipe recipe = run.as_planned();
    recipe.execution.precision = Precision::kFp32;
    check_training_file(run);
    const auto bench = assemble(recipe, load_materials(recipe));
    load_evaluated_weights(run, bench->task->module());
    return measured(*bench, run.plan);
  } catch (const Error& error) {
    if (error.code() == ExitCode::kInterrupted) throw;
    return unavailable(first_line(std::string_view(error.what())));
  } catch (const std::exception& error) {
    return unavailable(first_line(error));
  }
}

}  // namespace autotrain
