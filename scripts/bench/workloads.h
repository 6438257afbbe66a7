#pragma once

#include <memory>
#include <string>

#include "autotrain/data.h"
#include "autotrain/recipe.h"
#include "autotrain/task.h"

namespace autotrain::bench {

/// The workloads that benchmarks of ours and of the peers use: "mlp" (784 – 8 × 1024 – 10), "cnn" (that of
/// recipes/fashion_mnist_cnn.yaml), "resnet" (ResNet-18 with a 3 × 3 stem on 28 × 28 images) and "gpt" (4
/// layers, width 256, 4 heads, 128 bytes, untied). "gpt2" has GPT-2's shape (124 million
/// weights) and 256 tokens. "resnet50" takes made-up images in colour of 224 pixels that lie in memory, so
/// does "vit", which only PyTorch has; "detector" such of 128 that are drawn. And some whose memory
/// is hard to foresee: "lstm" (2 layers of 64 over the rows of an image), "residual" (60 linear layers of 32,
/// each with a shortcut), "padded" (linear layers over a batch filled up to a power of two) and "wide" (2
/// linear layers of 256).
struct Workload {
  std::unique_ptr<Dataset> train;
  std::unique_ptr<Dataset> validation;
  std::unique_ptr<Task> task;
};

/// Fashion-MNIST for images; made-up tokens for "gpt".
/// @param from_pytorch a file with the model of that name as PyTorch has it, to take the place of ours:
/// TorchScript where it ends with .pt, else exported; empty: none.
/// @throws std::invalid_argument for another name.
Workload make_workload(const std::string& name, const std::string& from_pytorch = "");

/// AdamW at a constant rate, no evaluation and no checkpoint before the end.
Recipe plain_recipe();

/// The value after `--name` on a command line, or `fallback`.
std::string argument(int argc, char** argv, const std::string& name, const std::string& fallback);

}  // namespace autotrain::bench
