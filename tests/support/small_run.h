#pragma once

#include <functional>
#include <string>
#include <vector>

#include "autotrain/trainer.h"
#include "report/metrics_file.h"
#include "support/run_workbench.h"
#include "support/support.h"

// Whole runs of SmallNet in a folder, and what they left there.
namespace autotrain::test {

// 96 KiB of activations a sample: a few megabytes hold some hundred.
constexpr int64_t kWide = 1 << 13;

// Calls of a task's loss that the check of its gradients and the trial of a typed size make before training,
// when the window is one piece: call kTrialCalls + w is window w.
constexpr int64_t kTrialCalls = 4;

// One run of SmallNet with dropout or batch normalisation, in a folder.
struct SmallRun {
  explicit SmallRun(const Recipe& recipe, TrainerOptions options = {},
                    SmallNet::Middle middle = SmallNet::Middle::kDropout)
      : train(small_data(1000)),
        validation(small_data(200, 8)),
        trainer(recipe, small_task(middle, kWide), train, validation, std::move(options)) {}

  TensorDataset train, validation;
  Trainer trainer;
};

inline Recipe recipe() {
  Recipe r = small_recipe();
  r.batch.effective = 100;
  r.optimizer.lr = 0.0005;
  r.stop = {};
  r.stop.epochs = 3;
  r.execution.memory.budget = *Budget::parse("12MiB");
  r.execution.memory.target_low = 0.5;
  r.execution.memory.target_high = 0.8;
  r.checkpoint.every = *Interval::parse("7 updates");
  r.checkpoint.keep = 100;
  return r;
}

inline Summary fit(const Recipe& r, const std::filesystem::path& folder, bool resume = false,
                   SmallNet::Middle middle = SmallNet::Middle::kDropout) {
  return SmallRun(r, {.output = folder, .resume = resume}, middle).trainer.fit();
}

// A digest, so that a failing comparison prints a line and not a model.
inline size_t model_digest(const std::filesystem::path& run, int64_t update) {
  const std::string bytes =
      slurp(run / "checkpoints" / ("update-" + std::to_string(update)) / "model.safetensors");
  EXPECT_FALSE(bytes.empty()) << run << " update " << update;
  return std::hash<std::string>{}(bytes);
}

inline nlohmann::ordered_json read_json(const std::filesystem::path& path) {
  return nlohmann::ordered_json::parse(slurp(path));
}

// The rows without what depends on the clock or on memory.
inline std::vector<nlohmann::ordered_json> timeless_rows(const std::filesystem::path& run) {
  std::vector<nlohmann::ordered_json> rows;
  for (nlohmann::ordered_json row : read_metrics(run / "metrics.jsonl")) {
    for (const std::string& key : timed_keys()) row.erase(key);
    rows.push_back(row);
  }
  return rows;
}

// What each update told of its gradient's noise; null where it told nothing.
inline std::vector<nlohmann::ordered_json> noise_rows(const std::filesystem::path& run,
                                                      const char* noise = "gradient_noise") {
  std::vector<nlohmann::ordered_json> rows;
  for (const nlohmann::ordered_json& row : read_metrics(run / "metrics.jsonl")) {
    if (row.at("kind") == "update") rows.push_back(row.value(noise, nlohmann::ordered_json()));
  }
  return rows;
}

inline std::vector<double> column(const std::filesystem::path& run, const char* name) {
  std::vector<double> values;
  for (const nlohmann::ordered_json& row : read_metrics(run / "metrics.jsonl")) {
    if (row.at("kind") == "update") values.push_back(row.at(name));
  }
  return values;
}

// A small CNN on made-up images, whose noise is soon known well enough for the batch to follow it.
inline Recipe adapting_recipe(const TemporaryFolder& folder) {
  return load_recipe(folder.write("adapting.yaml", R"(
data:
  train: {dataset: synthetic, kind: images, shape: [1, 12, 12], samples: 2000}
  validation: {dataset: synthetic, kind: images, shape: [1, 12, 12], samples: 200, first: 100000}
model: {name: cnn, width: 8, hidden: 32}
optimizer: {name: adamw, lr: 0.002, reference_batch: 96}
schedule: {name: cosine, warmup: 5%}
batch: {effective: 24, adapt: noise, limits: {min_effective: 16, max_effective: 100}}
stop: {epochs: 3}
evaluation: {every: 1000 samples}
checkpoint: {every: 700 samples, keep: 100}
execution: {precision: fp32, micro_batch: 8, threads: 1}
report: {html: false, csv: false, tensorboard: false}
)"));
}

// The size is typed: two searches may end at different sizes, and then dropout and batch normalisation
// see another cut.
inline Recipe typed_recipe() {
  Recipe r = recipe();
  r.execution.micro_batch = 34;
  r.execution.memory.budget = *Budget::parse(kSmallBudget);
  return r;
}

}  // namespace autotrain::test
