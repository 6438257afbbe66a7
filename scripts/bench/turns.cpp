// Segments of training on one device in turns with another program: reads lines "harness LENGTH" or "bare
// LENGTH" from standard input and answers each with one JSON line. Harness is a Trainer that waits between
// segments inside its callback; bare is a plain LibTorch loop over the same kernels. A length is in seconds,
// or with
// `--unit updates` in updates, for programs that count what those take.
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/_fused_adamw.h>

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "autotrain/trainer.h"
#include "base/clock.h"
#include "data/channels_last.h"
#include "data/preload.h"
#include "optim/optimizer.h"
#include "programs.h"
#include "recipe/recipe_enums.h"
#include "step/autocast.h"
#include "workloads.h"

namespace autotrain::bench {
namespace {

enum class Unit { kSeconds, kUpdates };

struct Segment {
  std::string side;
  double length = 0;
  Unit unit = Unit::kSeconds;

  bool reached(int64_t updates, double seconds) const {
    return (unit == Unit::kUpdates ? static_cast<double>(updates) : seconds) >= length;
  }
};

bool read_segment(Segment& segment) {
  return static_cast<bool>(std::cin >> segment.side >> segment.length);
}

void answer(const std::string& side, int64_t updates, int64_t samples, double seconds) {
  const nlohmann::ordered_json line = {
      {"side", side}, {"updates", updates}, {"samples_per_second", static_cast<double>(samples) / seconds}};
  std::printf("%s\n", line.dump().c_str());
  std::fflush(stdout);
}

// Images lie on the device that computes, as a recipe's do where there is room and as PyTorch's loop has
// them.
void hold_on(const torch::Device& device, Dataset& data) {
  auto* const images = dynamic_cast<Preloadable*>(&data);
  if (images != nullptr && !device.is_cpu()) images->preload({.device = device});
}

// The loop that one would write by hand has a shuffled index, the loss, backward, the norm, the fused update.
class BareLoop {
 public:
  struct Options {
    int64_t batch = 64;
    torch::Device device = torch::kCPU;
    Precision precision = Precision::kFp32;
    bool channels_last = false;
  };

  BareLoop(Workload& workload, const Options& options) : workload_(workload), options_(options) {
    workload.task->module().to(options.device);
    hold_on(options.device, *workload.train);
    for (const NamedTensor& parameter : trainable_parameters(workload.task->module())) {
      parameters_.push_back(parameter.tensor);
      averages_.push_back(torch::zeros_like(parameter.tensor));
      squares_.push_back(torch::zeros_like(parameter.tensor));
      steps_.push_back(torch::zeros({}, parameter.tensor.options()));
    }
  }

  void run(const Segment& segment) {
    update();  // warms caches that the other side has evicted
    const Stopwatch watch;
    int64_t updates = 0;
    do {
      update();
      ++updates;
    } while (!segment.reached(updates, watch.seconds()));
    answer("bare", updates, updates * options_.batch, watch.seconds());
  }

 private:
  std::vector<int64_t> next_indices() {
    if (!order_.defined() || at_ + options_.batch > order_.numel()) {
      order_ = torch::randperm(workload_.train->size());
      at_ = 0;
    }
    const int64_t* const first = order_.const_data_ptr<int64_t>() + at_;
    at_ += options_.batch;
    return {first, first + options_.batch};
  }

  void update() {
    const std::vector<int64_t> indices = next_indices();
    const std::vector<int64_t> epochs(indices.size(), 0);
    Batch batch = workload_.train->get(indices, SampleRandom(1, indices, epochs));
    if (!options_.device.is_cpu() && batch.inputs.is_cpu()) {
      batch.inputs = batch.inputs.pin_memory();
      batch.targets = batch.targets.pin_memory();
    }
    batch = batch.to(options_.device);
    if (options_.channels_last) batch.inputs = channels_last(batch.inputs);
    torch::Tensor loss;
    {
      const AutocastScope autocast(options_.device.type(), options_.precision);
      const LossTerms terms = workload_.task->loss(batch);
      loss = terms.sum / terms.weight;
    }
    loss.backward();
    const torch::NoGradGuard no_gradients;
    std::vector<torch::Tensor> gradients;
    for (const torch::Tensor& parameter : parameters_) gradients.push_back(parameter.grad());
    norm_ = at::stack(at::_foreach_norm(gradients)).norm().item<double>();
    at::_foreach_add_(steps_, 1);
    at::_fused_adamw_(parameters_, gradients, averages_, squares_, {}, steps_, 1e-3, 0.9, 0.999, 0, 1e-8,
                      /*amsgrad=*/false, /*maximize=*/false);
    for (const torch::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
    loss_ = loss.item<double>();
  }

  Workload& workload_;
  const Options options_;
  std::vector<torch::Tensor> parameters_, averages_, squares_, steps_;
  torch::Tensor order_;
  int64_t at_ = 0;
  double norm_ = 0, loss_ = 0;
};

// That of a recipe which names one; the first GPU where it gives no number.
torch::Device device_of(const Recipe& recipe) {
  const torch::Device device(recipe.execution.device);
  return device.is_cuda() && !device.has_index() ? torch::Device(device.type(), 0) : device;
}

// Runs as the trainer's callback: counts the updates of a segment, and between segments waits for the
// next one.
class Turns {
 public:
  Turns(BareLoop& bare, int64_t batch, Unit unit)
      : bare_(bare), batch_(batch), segment_{.side = {}, .unit = unit} {}

  Flow after_update() {
    if (running_) {
      ++updates_;
      if (warming_) warming_ = false, updates_ = 0, watch_.restart();
      if (updates_ == 0 || !segment_.reached(updates_, watch_.seconds())) return Flow::kContinue;
      answer("harness", updates_, updates_ * batch_, watch_.seconds());
    }
    while (read_segment(segment_)) {
      if (segment_.side == "bare") {
        bare_.run(segment_);
        continue;
      }
      running_ = warming_ = true;
      return Flow::kContinue;
    }
    return Flow::kStop;
  }

 private:
  BareLoop& bare_;
  const int64_t batch_;
  Segment segment_;
  Stopwatch watch_;
  bool running_ = false, warming_ = false;
  int64_t updates_ = 0;
};

}  // namespace

int turns(int argc, char** argv) {
  const std::string name = argument(argc, argv, "workload", "mlp");
  const int64_t batch = std::stoll(argument(argc, argv, "batch", "64"));
  const Precision precision = *parse_enum<Precision>(argument(argc, argv, "precision", "fp32"));
  const Unit unit = argument(argc, argv, "unit", "seconds") == "updates" ? Unit::kUpdates : Unit::kSeconds;
  const std::filesystem::path folder = "/tmp/autotrain-turns-" + std::to_string(::getpid());
  std::filesystem::remove_all(folder);  // of a killed process that had this number

  const std::string from_pytorch = argument(argc, argv, "from-pytorch", "");
  Workload by_hand = make_workload(name, from_pytorch);
  Workload workload = make_workload(name, from_pytorch);
  Recipe recipe = plain_recipe();
  recipe.batch.effective = recipe.execution.micro_batch = batch;
  recipe.execution.device = argument(argc, argv, "device", "cpu");
  recipe.execution.precision = precision;
  recipe.execution.memory_format = *parse_enum<MemoryFormat>(argument(argc, argv, "memory-format", "auto"));
  recipe.execution.cuda_graphs = *parse_enum<CudaGraphs>(argument(argc, argv, "cuda-graphs", "auto"));
  recipe.execution.loader.prefetch = std::stoll(argument(argc, argv, "prefetch", "2"));
  recipe.stop.updates = int64_t{1} << 40;
  Trainer trainer(recipe, std::move(workload.task), *workload.train, {.output = folder});
  hold_on(device_of(recipe), *workload.train);
  const BatchPlan plan = trainer.plan();
  BareLoop bare(by_hand, {.batch = batch,
                          .device = torch::Device(plan.device),
                          .precision = precision,
                          .channels_last = plan.memory_format == MemoryFormat::kChannelsLast});
  Turns turns(bare, batch, unit);
  trainer.on_update([&](const UpdateRecord&) { return turns.after_update(); });
  trainer.fit();
  std::filesystem::remove_all(folder);
  return 0;
}

}  // namespace autotrain::bench
