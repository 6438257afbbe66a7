#!/usr/bin/env python3
"""Adds a model, a data set, an optimizer, a schedule, a metric and a command, as CONTRIBUTING.md says, to a copy of the
project that is laid over it, builds that and uses them in one run.

    adding_test.py path/to/project [look]

With "look" only whether what it would change is where it was.

Skipped where file systems cannot be laid over each other (that takes root and overlayfs). Each addition touches at most
two files, which is counted.
"""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SKIPPED = 77

MODEL = """#include <torch/nn/modules/linear.h>

#include "model/models.h"

namespace autotrain {
namespace {

class OneLayer final : public Network {
 public:
  OneLayer(int64_t inputs, int64_t classes)
      : layer_(register_module("layer", torch::nn::Linear(inputs, classes))) {}
  torch::Tensor forward(torch::Tensor x) override { return layer_->forward(x.flatten(1)); }

 private:
  torch::nn::Linear layer_;
};

}  // namespace

ModelRow one_layer_row() {
  return {{"one_layer", "A linear layer.", {}}, [](const Parameters&, const SampleShape& shape) {
            return std::make_shared<OneLayer>(shape.input.at(0), shape.classes);
          }};
}

}  // namespace autotrain
"""

DATA_SET = """#include "data/datasets.h"

namespace autotrain {
namespace {

class Signs final : public Dataset {
 public:
  explicit Signs(int64_t samples) : samples_(samples) {}
  int64_t size() const override { return samples_; }
  Batch get(c10::ArrayRef<int64_t> indices, const SampleRandom&) const override {
    const auto n = static_cast<int64_t>(indices.size());
    torch::Tensor labels = torch::empty({n}, torch::kInt64);
    for (int64_t i = 0; i < n; ++i) labels[i] = indices[i] % 2;
    return {(2 * labels - 1).unsqueeze(1).expand({n, 3}).to(torch::kFloat32).contiguous(), labels, n};
  }
  DatasetInfo info() const override {
    return {.kind = DatasetInfo::Kind::kVectors, .input_shape = {3}, .classes = 2};
  }

 private:
  int64_t samples_;
};

}  // namespace

DatasetRow signs_row() {
  return {{"signs", "Vectors whose class is their sign.", {integer_key("samples", "How many.", 100).from(1)}},
          [](const DatasetRequest& request) -> std::unique_ptr<Dataset> {
            return std::make_unique<Signs>(request.parameters.integer("samples"));
          }};
}

}  // namespace autotrain
"""

OPTIMIZER = """#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_mul.h>

#include "optim/foreach.h"
#include "optim/rows.h"
#include "optim/unfused.h"

namespace autotrain {
namespace {

class Descent final : public UnfusedOptimizer {
 public:
  explicit Descent(Trained trained) : UnfusedOptimizer(std::move(trained)) {}

 private:
  void apply_parts(const Parts& parts) override {
    decay_parameters(parts);
    const auto steps = at::_foreach_mul(parts.gradients, rate());
    for (size_t i = 0; i < steps.size(); ++i) parts.scratch[i].copy_(steps[i]);
    subtract_scratch(parts.parameters, parts);
  }
};

}  // namespace

OptimizerRow descent_row() {
  return {{"descent", "Steps against the gradient.", {}},
          /*adaptive=*/false,
          [](const Parameters&) { return 0; },
          [](const Parameters&, Trained trained) { return std::make_unique<Descent>(std::move(trained)); }};
}

}  // namespace autotrain
"""

COMMAND = """#include <cstdio>

#include "cli/command.h"

namespace autotrain {

extern const Command kGreet;

const Command kGreet = {"greet", "Say hello", "", [](CLI::App&) -> std::function<ExitCode()> {
                          return [] {
                            std::puts("hello");
                            return ExitCode::kDone;
                          };
                        }};

}  // namespace autotrain
"""

SCHEDULE = """ScheduleRow halves_row() {
  return {{"halves", "Half of the rate, always.", {}}, false, [](const Parameters&) -> ShapeFunction {
            return [](double, double) { return 0.5; };
          }};
}

"""

METRIC = """           {K::kNumbers},
           r2}};"""

# By kind: new files, and in files that are there a text with what stands in its place.
ADDITIONS = {
    "model": {"src/model/one_layer.cpp": MODEL,
              "src/model/models.cpp": [("ModelRow mlp_row();", "ModelRow one_layer_row();\nModelRow mlp_row();"),
                                       ("table = {mlp_row(),", "table = {one_layer_row(), mlp_row(),")]},
    "data set": {"src/data/signs.cpp": DATA_SET,
                 "src/data/datasets.cpp": [("DatasetRow documents_row();",
                                            "DatasetRow documents_row();\nDatasetRow signs_row();"),
                                           ("({coco_row(),", "({signs_row(), coco_row(),")]},
    "optimizer": {"src/optim/descent.cpp": OPTIMIZER,
                  "src/optim/algorithms.cpp": [("OptimizerRow sgd_row();",
                                                "OptimizerRow sgd_row();\nOptimizerRow descent_row();"),
                                               ("table = {sgd_row(),", "table = {descent_row(), sgd_row(),")]},
    "schedule": {"src/optim/schedule_shapes.cpp": [("ScheduleRow linear_row() {", SCHEDULE + "ScheduleRow linear_row() {"),
                                                   ("constant_row(),", "constant_row(), halves_row(),")]},
    "metric": {"src/model/metrics.cpp": [
        ('{{"label_accuracy"',
         '{{"twice", "Twice what cross-entropy is the exponent of."}, {K::kClasses}, perplexity},\n      {{"label_accuracy"')]},
    "command": {"src/cli/greet.cpp": COMMAND,
                "src/cli/commands.cpp": [("extern const Command kTrain,", "extern const Command kGreet, kTrain,"),
                                         ("{&kDoctor,", "{&kGreet, &kDoctor,")]},
}

RECIPE = """
data:
  train: {dataset: signs, samples: 256}
  validation: {dataset: signs, samples: 64}
model: {name: one_layer}
optimizer: {name: descent, lr: 0.5}
schedule: {name: halves, warmup: 0 updates}
batch: {effective: 32}
stop: {epochs: 2}
evaluation: {metrics: [accuracy, twice]}
execution: {precision: fp32, memory: {budget: 64MiB}, micro_batch: 32}
"""


def add(project, write=True):
    for kind, files in ADDITIONS.items():
        assert len(files) <= 2, f"{kind}: {len(files)} files"
        for name, change in files.items():
            path = Path(project, name)
            if isinstance(change, str):
                if write:
                    path.write_text(change)
                continue
            text = path.read_text()
            for before, after in change:
                assert text.count(before) == 1, f"{name} holds {text.count(before)} times {before!r}"
                text = text.replace(before, after)
            if write:
                path.write_text(text)


def build_and_use(project):
    add(project)
    build = Path(project, "build", "release")
    subprocess.run(["ninja", "-C", str(build), "autotrain"], check=True, stdout=subprocess.DEVNULL)
    binary = build / "autotrain"
    assert subprocess.run([binary, "greet"], check=True, capture_output=True, text=True).stdout == "hello\n"
    assert "greet" in subprocess.run([binary, "--help"], check=True, capture_output=True, text=True).stdout
    reference = subprocess.run([binary, "config"], check=True, capture_output=True, text=True).stdout
    for word in ("one_layer", "signs", "descent", "halves"):
        assert word in reference, f"{word} is not in the reference of keys"
    with tempfile.TemporaryDirectory() as folder:
        recipe = Path(folder, "recipe.yaml")
        recipe.write_text(RECIPE)
        subprocess.run([binary, "--config", recipe, "--output", f"{folder}/run", "--quiet"], check=True)
        summary = json.loads(Path(folder, "run", "summary.json").read_text())
    assert summary["final"]["accuracy"] == 1, summary["final"]
    assert "twice" in summary["final"], summary["final"]
    print("a model, a data set, an optimizer, a schedule, a metric and a command, in at most two files each")


def main():
    project = Path(sys.argv[1]).resolve()
    if sys.argv[2:] == ["look"]:  # whether the places are where they were
        return add(project, write=False)
    if len(sys.argv) > 2:
        return build_and_use(project)
    with tempfile.TemporaryDirectory() as upper:
        # The copy has the project's own path, so that what was built there counts as built.
        command = ('mount -t tmpfs tmpfs "$1" && mkdir "$1/upper" "$1/work" && '
                   'mount -t overlay overlay -o "lowerdir=$2,upperdir=$1/upper,workdir=$1/work" "$2" || exit 77; '
                   'cd "$2" && exec "$3" "$4" "$2" inside')
        code = subprocess.run(["unshare", "-m", "bash", "-c", command, "bash", upper, str(project), sys.executable,
                               str(Path(__file__).resolve())], check=False, env={**os.environ, "CI": "1"}).returncode
    if code == SKIPPED:
        print("skipped: a file system cannot be laid over the project here")
    return code


if __name__ == "__main__":
    sys.exit(main())
