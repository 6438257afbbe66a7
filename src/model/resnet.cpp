#include <torch/nn/init.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>

#include <array>

#include "autotrain/checkpoint.h"
#include "model/linear.h"
#include "model/models.h"

namespace autotrain {
namespace {

// He et al. 2016, in the layout and with the parameter names of torchvision (stride on the 3 × 3
// convolution of a bottleneck), so that weights can be exchanged.

torch::nn::Conv2d conv(int64_t in, int64_t out, int64_t kernel, int64_t stride) {
  return torch::nn::Conv2d(
      torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
}

class ResidualBlock : public torch::nn::Module {
 public:
  virtual torch::Tensor forward(const torch::Tensor& x) = 0;

 protected:
  void add_downsample(int64_t in, int64_t out, int64_t stride) {
    if (stride == 1 && in == out) return;
    downsample_ = register_module(
        "downsample", torch::nn::Sequential(conv(in, out, 1, stride), torch::nn::BatchNorm2d(out)));
  }

  torch::Tensor shortcut(const torch::Tensor& x) {
    return downsample_.is_empty() ? x : downsample_->forward(x);
  }

 private:
  torch::nn::Sequential downsample_{nullptr};
};

class BasicBlock final : public ResidualBlock {
 public:
  static constexpr int64_t kExpansion = 1;

  BasicBlock(int64_t in, int64_t width, int64_t stride) {
    conv1_ = register_module("conv1", conv(in, width, 3, stride));
    bn1_ = register_module("bn1", torch::nn::BatchNorm2d(width));
    conv2_ = register_module("conv2", conv(width, width, 3, 1));
    bn2_ = register_module("bn2", torch::nn::BatchNorm2d(width));
    add_downsample(in, width, stride);
  }

  torch::Tensor forward(const torch::Tensor& x) override {
    torch::Tensor y = bn1_->forward(conv1_->forward(x)).relu_();
    y = bn2_->forward(conv2_->forward(y));
    return (y += shortcut(x)).relu_();  // batch normalisation does not need its output
  }

 private:
  torch::nn::Conv2d conv1_{nullptr}, conv2_{nullptr};
  torch::nn::BatchNorm2d bn1_{nullptr}, bn2_{nullptr};
};

class Bottleneck final : public ResidualBlock {
 public:
  static constexpr int64_t kExpansion = 4;

  Bottleneck(int64_t in, int64_t width, int64_t stride) {
    const int64_t out = kExpansion * width;
    conv1_ = register_module("conv1", conv(in, width, 1, 1));
    bn1_ = register_module("bn1", torch::nn::BatchNorm2d(width));
    conv2_ = register_module("conv2", conv(width, width, 3, stride));
    bn2_ = register_module("bn2", torch::nn::BatchNorm2d(width));
    conv3_ = register_module("conv3", conv(width, out, 1, 1));
    bn3_ = register_module("bn3", torch::nn::BatchNorm2d(out));
    add_downsample(in, out, stride);
  }

  torch::Tensor forward(const torch::Tensor& x) override {
    torch::Tensor y = bn1_->forward(conv1_->forward(x)).relu_();
    y = bn2_->forward(conv2_->forward(y)).relu_();
    y = bn3_->forward(conv3_->forward(y));
    return (y += shortcut(x)).relu_();
  }

 private:
  torch::nn::Conv2d conv1_{nullptr}, conv2_{nullptr}, conv3_{nullptr};
  torch::nn::BatchNorm2d bn1_{nullptr}, bn2_{nullptr}, bn3_{nullptr};
};

struct ResNetOptions {
  std::array<int64_t, 4> blocks;
  int64_t channels = 3;
  int64_t classes = 1000;
  bool small_stem = false;
};

template <class Block>
class ResNet final : public Network {
 public:
  explicit ResNet(const ResNetOptions& o) : small_stem_(o.small_stem) {
    conv1_ = register_module("conv1", small_stem_ ? conv(o.channels, 64, 3, 1) : conv(o.channels, 64, 7, 2));
    bn1_ = register_module("bn1", torch::nn::BatchNorm2d(64));
    int64_t in = 64;
    for (size_t i = 0; i < stages_.size(); ++i) {
      const int64_t width = int64_t{64} << i;
      stages_[i] = register_module("layer" + std::to_string(i + 1),
                                   make_stage(in, width, o.blocks[i], i == 0 ? 1 : 2));
      in = width * Block::kExpansion;
    }
    fc_ = register_module("fc", Linear(in, o.classes));
    for (const auto& module : modules(/*include_self=*/false)) {
      if (auto* const layer = module->template as<torch::nn::Conv2d>()) {
        torch::nn::init::kaiming_normal_(layer->weight, 0, torch::kFanOut, torch::kReLU);
      }
    }
  }

  torch::Tensor forward(torch::Tensor x) override {
    x = checkpoint(*bn1_, x, [this](const torch::Tensor& images) {
      const torch::Tensor y = bn1_->forward(conv1_->forward(images)).relu_();
      return small_stem_ ? y : at::max_pool2d(y, 3, 2, 1);
    });
    for (torch::nn::Sequential& stage : stages_) x = checkpoint_each(stage, x);
    return fc_->forward(at::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
  }

 private:
  static torch::nn::Sequential make_stage(int64_t in, int64_t width, int64_t blocks, int64_t stride) {
    torch::nn::Sequential stage;
    for (int64_t i = 0; i < blocks; ++i) {
      stage->push_back(
          std::make_shared<Block>(i == 0 ? in : width * Block::kExpansion, width, i == 0 ? stride : 1));
    }
    return stage;
  }

  bool small_stem_;
  torch::nn::Conv2d conv1_{nullptr};
  torch::nn::BatchNorm2d bn1_{nullptr};
  std::array<torch::nn::Sequential, 4> stages_ = {nullptr, nullptr, nullptr, nullptr};
  Linear fc_{nullptr};
};

std::shared_ptr<Network> make_resnet(int64_t layers, const Parameters& p, const SampleShape& shape) {
  if (shape.input.size() != 3)
    fail_model("resnet", "takes images", "use mlp for vectors, transformer for tokens");
  ResNetOptions options{.blocks = {3, 4, 6, 3},
                        .channels = shape.input[0],
                        .classes = shape.classes,
                        .small_stem = p.text("stem") == "small"};
  if (layers == 18) options.blocks = {2, 2, 2, 2};
  if (layers == 50) return std::make_shared<ResNet<Bottleneck>>(options);
  return std::make_shared<ResNet<BasicBlock>>(options);
}

}  // namespace

ModelRow resnet_row(int64_t layers) {
  return {
      {"resnet" + std::to_string(layers),
       "Residual network with batch normalisation; parameters named and shaped as torchvision's.",
       {word_key("stem", "First layer: 7 × 7 with pooling for large images, or 3 × 3 without for small ones.",
                 {"imagenet", "small"}, "imagenet")}},
      [layers](const Parameters& p, const SampleShape& shape) { return make_resnet(layers, p, shape); }};
}

}  // namespace autotrain
