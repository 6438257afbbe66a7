#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/normalization.h>

#include <cmath>
#include <numeric>

#include "autotrain/checkpoint.h"
#include "base/text.h"
#include "model/models.h"

namespace autotrain {
namespace {

constexpr int64_t kBoxNumbers = 5;        // objectness, then the box
constexpr double kObjectsAtFirst = 0.05;  // objectness of untrained cells, most of which are empty

struct DetectorOptions {
  int64_t channels = 0;
  int64_t width = 0;
  int64_t blocks = 0;
  int64_t classes = 0;
};

torch::nn::Conv2d conv3x3(int64_t in, int64_t out, int64_t stride) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, 3).stride(stride).padding(1).bias(false));
}

// Group normalisation: unlike that of batches it does not depend on how an update is cut.
torch::nn::GroupNorm normalisation(int64_t channels) {
  return torch::nn::GroupNorm(std::gcd(channels, int64_t{8}), channels);
}

// Halves height and width, and looks once more at the result.
class DetectorBlock final : public torch::nn::Module {
 public:
  DetectorBlock(int64_t in, int64_t out) {
    conv1_ = register_module("conv1", conv3x3(in, out, 2));
    norm1_ = register_module("norm1", normalisation(out));
    conv2_ = register_module("conv2", conv3x3(out, out, 1));
    norm2_ = register_module("norm2", normalisation(out));
  }

  torch::Tensor forward(torch::Tensor x) {
    x = at::silu(norm1_->forward(conv1_->forward(x)));
    return at::silu(norm2_->forward(conv2_->forward(x)));
  }

 private:
  torch::nn::Conv2d conv1_{nullptr}, conv2_{nullptr};
  torch::nn::GroupNorm norm1_{nullptr}, norm2_{nullptr};
};

// Every cell of a grid says whether the centre of an object lies in it, where its box is, and what it is.
class Detector final : public Network {
 public:
  explicit Detector(const DetectorOptions& o) {
    int64_t in = o.channels;
    for (int64_t i = 0; i < o.blocks; ++i) {
      const int64_t out = o.width << i;
      blocks_->push_back(DetectorBlock(in, out));
      in = out;
    }
    register_module("blocks", blocks_);
    head_ =
        register_module("head", torch::nn::Conv2d(torch::nn::Conv2dOptions(in, kBoxNumbers + o.classes, 1)));
    const torch::NoGradGuard no_gradients;
    head_->bias[0].fill_(std::log(kObjectsAtFirst / (1 - kObjectsAtFirst)));
  }

  torch::Tensor forward(torch::Tensor x) override {
    return head_->forward(checkpoint_each(blocks_, x)).permute({0, 2, 3, 1});
  }

 private:
  torch::nn::Sequential blocks_;
  torch::nn::Conv2d head_{nullptr};
};

std::shared_ptr<Network> make_detector(const Parameters& p, const SampleShape& shape) {
  if (shape.input.size() != 3) fail_model("detector", "takes images", "use data set yolo");
  const int64_t blocks = p.integer("blocks"), cell = int64_t{1} << blocks;
  if (shape.input[1] < cell || shape.input[2] < cell) {
    fail_model("detector", cat("takes images of at least ", cell, " × ", cell, " pixels"),
               "set fewer model.blocks or a larger size");
  }
  return std::make_shared<Detector>(DetectorOptions{
      .channels = shape.input[0], .width = p.integer("width"), .blocks = blocks, .classes = shape.classes});
}

}  // namespace

ModelRow detector_row() {
  return {
      {"detector",
       "A small single-scale object detector without anchors: stride-2 convolutions down to a grid of cells, "
       "each of which predicts objectness, a box and a class. Goes with loss detection.",
       {integer_key("width", "Channels of the first block; each block has twice as many as the last.", 16)
            .from(1, 1 << 12),
        integer_key("blocks", "Blocks; a cell is 2 to the power of this many pixels wide.", 4).from(1, 7)}},
      make_detector,
      /*is_program=*/false,
      /*predicts_once=*/false};
}

}  // namespace autotrain
