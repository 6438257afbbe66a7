#include "plan/recorded_windows.h"

#include <algorithm>

#include "base/clock.h"
#include "base/text.h"
#include "base/units.h"
#include "device/call_seconds.h"
#include "device/generators.h"
#include "plan/scopes.h"

namespace autotrain {
namespace {

constexpr double kTimedSeconds = 0.15;
constexpr int64_t kMostWindows = 64;
constexpr int64_t kWarmWindows = 3;  // launched, recorded and replayed
constexpr int64_t kComparedWindow =
    1'000'003;  // draws other random numbers than those that were recorded with

// Passes of one window, whose updates change nothing.
class Windows {
 public:
  Windows(Workbench& bench, const std::vector<Batch>& batches) : bench_(bench), batches_(batches) {}

  PendingUpdate queue(int64_t window) {
    accumulate(batches_, window);
    return bench_.step.finish(0, UpdateStep::Apply::kForceSkip);
  }

  // Seconds of each of `count` windows. As in a run, the figures of an update are read when the next one is
  // queued.
  double time(int64_t count) {
    bench_.device->synchronize();
    const Stopwatch watch;
    PendingUpdate before;
    for (int64_t i = 0; i < count; ++i) {
      PendingUpdate queued = queue(i);
      if (before.valid()) before.read();
      before = std::move(queued);
    }
    before.read();
    bench_.device->synchronize();
    return watch.seconds() / static_cast<double>(count);
  }

  double time() {
    const double one = time(1);
    const auto count = static_cast<int64_t>(kTimedSeconds / std::max(one, 1e-6));
    return count < 2 ? one : time(std::min(count, kMostWindows));
  }

  // The passes of the first micro-batch alone: in a window the host waits for earlier ones.
  CallSeconds time_launches() {
    const WindowScope window(bench_.step);
    const Batch there = bench_.device->upload(batches_.front());
    return seconds_of_call(*bench_.device, [&] { bench_.step.accumulate(there, 0, 0); });
  }

  // Of one window, still scaled, in main memory, and behind it the sum of the weights: of the samples in
  // another order than they are timed and recorded in.
  torch::Tensor gradients() {
    std::vector<Batch> turned;
    for (const Batch& batch : batches_)
      turned.push_back(!batch.shared.empty() ? batch : batch.with_each([](const torch::Tensor& tensor) {
        return tensor.flip({0});
      }));
    const WindowScope window(bench_.step);
    accumulate(turned, kComparedWindow);
    const torch::Tensor weight = torch::full({1}, bench_.step.lane_weight(), torch::kFloat32);
    return torch::cat({bench_.step.recorded_gradients().cpu(), weight});
  }

 private:
  void accumulate(const std::vector<Batch>& batches, int64_t window) {
    int64_t offset = 0;
    for (const Batch& batch : batches) {
      bench_.step.accumulate(bench_.device->upload(batch), window, offset);
      offset += batch.samples;
    }
  }

  Workbench& bench_;
  const std::vector<Batch>& batches_;
};

bool same_bits(const torch::Tensor& a, const torch::Tensor& b) {
  return a.view(torch::kInt32).equal(b.view(torch::kInt32));
}

double distance(const torch::Tensor& a, const torch::Tensor& b) {
  return (a - b).norm().item<double>();
}

// The gradients of two launched windows, before anything is recorded: with the memory of recordings beside
// them libraries might choose other kernels.
struct Launched {
  torch::Tensor once, again;
};

// "" when a replay gives what launched windows give. Kernels that add in any order give other bits each time:
// then a replay must be as near as a repetition is, and that must be near. It could not be told from a model
// whose own code changes a little at every call (a temperature that falls), which is why only models and
// losses of ours are taken like this unasked.
std::string why_not_alike(const torch::Tensor& replayed, const Launched& launched, bool trusted) {
  constexpr double kNoise = 4, kNear = 0.01;
  const std::string decides_anew =
      "replayed, the model gives other gradients: its own code decides anew each time";
  if (same_bits(replayed, launched.once)) return "";
  if (same_bits(launched.again, launched.once)) return decides_anew;
  const double noise = distance(launched.again, launched.once);
  const bool near = noise <= kNear * launched.once.norm().item<double>();
  if (!near || distance(replayed, launched.once) > kNoise * noise) return decides_anew;
  if (trusted) return "";
  return "launched twice, the model gives other bits, so that nothing shows that a replay is right; "
         "execution.deterministic: true makes kernels repeat, and cuda_graphs: on takes it as it is";
}

}  // namespace

RecordedWindows measure_recorded(Workbench& bench, const std::vector<Batch>& batches, bool always,
                                 bool trusted) {
  RecordedWindows found;
  const GeneratorScope generators(bench.device->torch_device());
  const TensorScope scaler(bench.scaler.state());
  const RecordingScope recording(bench.step);
  const WindowScope window(bench.step);
  set_training(bench.task->module());
  Windows windows(bench, batches);
  windows.queue(0).read();  // compiles and loads
  found.launched_seconds = windows.time();
  const CallSeconds launches = windows.time_launches();
  if (!always && !launches_show(launches)) {
    found.refused = cat("launches hide behind the device's work: they take the host ",
                        format_percent(launches.host / launches.whole, 0), " of the passes' time");
    return found;
  }
  bench.step.record_with(bench.device->make_recorder());
  bench.step.pass_by_recordings(true);
  const Launched launched{windows.gradients(), windows.gradients()};
  bench.step.pass_by_recordings(false);
  for (int64_t i = 0; i < kWarmWindows; ++i) windows.queue(i).read();
  found.refused = bench.step.why_not_recorded();
  if (!found.refused.empty()) return found;
  found.replayed_seconds = windows.time();
  found.refused = why_not_alike(windows.gradients(), launched, trusted);
  return found;
}

}  // namespace autotrain
