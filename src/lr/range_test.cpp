#include "lr/range_test.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "autotrain/error.h"
#include "base/interrupt.h"
#include "device/generators.h"
#include "loop/out_of_memory.h"
#include "loop/window_runner.h"
#include "plan/scopes.h"
#include "step/precision.h"

namespace autotrain {
namespace {

constexpr int64_t kMostSkipped = 25;  // updates in a row, while the loss scaler looks for its scale

// Everything that updates change.
std::vector<NamedTensor> changing_tensors(const Workbench& bench) {
  std::vector<NamedTensor> tensors = bench.optimizer->parameters();
  for (const auto& item : bench.task->module().named_buffers()) tensors.push_back({item.key(), item.value()});
  for (const auto& list : {bench.optimizer->state(), bench.scaler.state(), bench.average.state()})
    tensors.insert(tensors.end(), list.begin(), list.end());
  return tensors;
}

// After its tensors were put back.
struct TakeStateAtEnd {
  Optimizer& optimizer;
  ~TakeStateAtEnd() {
    put_back([&] { optimizer.take_state(); });
  }
};

class RangeTester {
 public:
  RangeTester(Workbench& bench, const BatchPlan& plan, const RangeTestOptions& options)
      : bench_(bench),
        plan_(plan),
        options_(options),
        rates_(rate_grid(options.from, options.to, options.factor)) {
    bench_.step.set_loss_factor(plan.loss_factor);
    bench_.task->module().train();
  }

  RateStretch run(int64_t number) {
    number_ = number;
    RateStretch stretch{.position = options_.position + first_window() * plan_.effective_batch};
    // The growing rate may seem to diverge where a held one does not: noise after a fall far down is enough.
    const auto largest =
        largest_that_holds(grow(stretch), rates_.size(), [&](size_t rate) { return holds(rate, stretch); });
    stretch.diverges = !largest || *largest + 1 < rates_.size();
    if (largest && stretch.diverges) stretch.edge = rates_[*largest];
    return stretch;
  }

 private:
  // Of this stretch, counted from where the first one begins. Stretches do not overlap.
  int64_t first_window() const { return number_ * (std::max(std::ssize(rates_), options_.held_updates) + 1); }

  // One update after the other from the weights as they are, which are put back at the end. `next` is told
  // each window's loss, and gives the rate of the next update; nothing: it was the last one. A loss that is
  // not finite stands for every window that could not be trained on.
  template <class Next>
  void train(double rate, Next next) {
    const GeneratorScope generators(bench_.device->torch_device());
    const TakeStateAtEnd optimizer{*bench_.optimizer};
    const TensorScope tensors(changing_tensors(bench_), torch::kCPU);
    const WindowScope window_under_way(bench_.step);
    const WindowCut cut{plan_.effective_batch, plan_.micro_batch, bench_.lanes};
    const int64_t first = first_window();
    Loader loader(*bench_.data.train, bench_.stream,
                  endless_windows(*bench_.data.train, bench_.stream, cut,
                                  options_.position + first * plan_.effective_batch),
                  bench_.loader);
    int64_t skipped = 0;
    std::optional<double> next_rate = rate;
    for (int64_t window = options_.window + first; next_rate; ++window) {
      const UpdateOutcome outcome = update(loader, cut, window, *next_rate);
      const bool may_skip = scales_loss(bench_.precision) || outcome.weight == 0;
      if (!outcome.applied && may_skip && ++skipped <= kMostSkipped) continue;
      skipped = 0;
      next_rate = next(outcome.applied ? outcome.loss : std::numeric_limits<double>::infinity());
    }
  }

  UpdateOutcome update(Loader& loader, const WindowCut& cut, int64_t window, double rate) {
    if (!accumulate_window(bench_, loader, cut, window)) stop_if_interrupted("lr", "a signal stopped it");
    bench_.step.prepare(rate);
    const UpdateOutcome outcome = bench_.step.commit().read();
    bench_.timeline.cut();
    return outcome;
  }

  // @return which rate of the grid made the loss diverge; their number: none did.
  size_t grow(RateStretch& stretch) {
    LossWatch watch;
    size_t windows = 0;
    train(rates_.front(), [&](double loss) -> std::optional<double> {
      watch.add(loss);
      tell(rates_[std::min(windows, rates_.size() - 1)], loss, false);
      if (windows == 0) stretch.start_loss = loss;
      if (windows > 0 && std::isfinite(loss)) stretch.points.push_back({rates_[windows - 1], loss});
      if (watch.diverged() || windows == rates_.size()) return std::nullopt;
      ++windows;
      return rates_[std::min(windows, rates_.size() - 1)];
    });
    stretch.steepest = steepest_rate(stretch.points);
    stretch.valley_end = end_of_valley(stretch.points);
    if (watch.diverged()) return windows == 0 ? 0 : windows - 1;
    if (stretch.valley_end == rates_.back()) stretch.valley_end.reset();
    return rates_.size();
  }

  bool holds(size_t rate, RateStretch& stretch) {
    std::vector<double> losses;
    train(rates_[rate], [&](double loss) -> std::optional<double> {
      losses.push_back(loss);
      tell(rates_[rate], loss, true);
      const bool last = std::ssize(losses) > options_.held_updates || !std::isfinite(loss);
      return last ? std::nullopt : std::optional(rates_[rate]);
    });
    const bool diverged = diverged_when_held(losses);
    stretch.held.push_back({rates_[rate], diverged});
    return !diverged;
  }

  void tell(double lr, double loss, bool held) const {
    options_.on_update({.stretch = number_, .lr = lr, .loss = loss, .held = held});
  }

  Workbench& bench_;
  const BatchPlan& plan_;
  const RangeTestOptions& options_;
  const std::vector<double> rates_;
  int64_t number_ = 0;
};

}  // namespace

std::vector<RateStretch> range_test(Workbench& bench, const BatchPlan& plan,
                                    const RangeTestOptions& options) {
  check_invariant(!bench.ranks->several(), "a range test is made by one rank");
  try {
    RangeTester tester(bench, plan, options);
    std::vector<RateStretch> stretches;
    for (int64_t i = 0; i < options.stretches; ++i) stretches.push_back(tester.run(i));
    return stretches;
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    if (!lacks_memory(error)) throw;
    throw out_of_memory(bench, plan, error, bench.device->memory().last_refusal(), "training",
                        plan.micro_batch, "");
  }
}

int64_t restored_bytes(const Workbench& bench) {
  if (!bench.device->torch_device().is_cpu()) return 0;
  int64_t bytes = 0;
  for (const NamedTensor& each : changing_tensors(bench)) bytes += static_cast<int64_t>(each.tensor.nbytes());
  return bytes;
}

}  // namespace autotrain
