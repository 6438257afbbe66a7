// Measures what static buffers cost or gain: the step with and without them over the same micro-batch, in
// turns. One JSON line with the samples a second of each round.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "autotrain/task.h"
#include "base/clock.h"
#include "optim/optimizer.h"
#include "programs.h"
#include "step/update_step.h"
#include "workloads.h"

namespace autotrain::bench {
namespace {

class Side {
 public:
  Side(const std::string& name, int64_t batch, bool static_buffers)
      : workload_(make_workload(name)),
        optimizer_(
            make_optimizer(plain_recipe().optimizer, {trainable_parameters(workload_.task->module())})),
        scaler_({}, /*dynamic=*/false, torch::kCPU),
        step_(*workload_.task, *optimizer_, scaler_, {.static_buffers = static_buffers}) {
    std::vector<int64_t> indices(static_cast<size_t>(batch)), epochs(static_cast<size_t>(batch), 0);
    for (size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<int64_t>(i);
    batch_ = workload_.train->get(indices, SampleRandom(1, indices, epochs));
  }

  double samples_per_second(double seconds) {
    update();
    const Stopwatch watch;
    int64_t updates = 0;
    for (; watch.seconds() < seconds; ++updates) update();
    return static_cast<double>(updates * batch_.samples) / watch.seconds();
  }

 private:
  void update() {
    step_.accumulate(batch_, window_++, 0);
    step_.finish(1e-3).read();
  }

  Workload workload_;
  std::unique_ptr<Optimizer> optimizer_;
  GradScaler scaler_;
  UpdateStep step_;
  Batch batch_;
  int64_t window_ = 0;
};

}  // namespace

int static_step(int argc, char** argv) {
  const std::string name = argument(argc, argv, "workload", "mlp");
  const int64_t batch = std::stoll(argument(argc, argv, "batch", "64"));
  const int64_t rounds = std::stoll(argument(argc, argv, "rounds", "9"));
  const double seconds = std::stod(argument(argc, argv, "seconds", "1"));
  Side ordinary(name, batch, false), fixed(name, batch, true);
  nlohmann::ordered_json line = {{"workload", name}, {"batch", batch}};
  for (int64_t round = 0; round < rounds; ++round) {
    const bool first = round % 2 == 0;  // whichever goes second finds warmer caches
    for (const bool one : {first, !first})
      line[one ? "static" : "ordinary"].push_back((one ? fixed : ordinary).samples_per_second(seconds));
  }
  std::printf("%s\n", line.dump().c_str());
  return 0;
}

}  // namespace autotrain::bench
