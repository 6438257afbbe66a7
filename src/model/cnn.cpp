#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>

#include "autotrain/checkpoint.h"
#include "base/text.h"
#include "model/linear.h"
#include "model/models.h"

namespace autotrain {
namespace {

struct CnnOptions {
  int64_t channels = 0;
  int64_t height = 0, width_pixels = 0;
  int64_t width = 0;
  int64_t hidden = 0;
  int64_t classes = 0;
  double dropout = 0;
};

torch::nn::Conv2d conv3x3(int64_t in, int64_t out) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, 3).padding(1));
}

// Two stages of (3 × 3 convolution, ReLU, 2 × 2 maximum) and two linear layers. Without
// normalisation layers, so that accumulating gradients changes nothing but rounding.
class Cnn final : public Network {
 public:
  explicit Cnn(const CnnOptions& o) {
    conv1_ = register_module("conv1", conv3x3(o.channels, o.width));
    conv2_ = register_module("conv2", conv3x3(o.width, 2 * o.width));
    const int64_t features = 2 * o.width * (o.height / 4) * (o.width_pixels / 4);
    hidden_ = register_module("hidden", Linear(features, o.hidden));
    dropout_ = register_module("dropout", torch::nn::Dropout(o.dropout));
    output_ = register_module("output", Linear(o.hidden, o.classes));
  }

  torch::Tensor forward(torch::Tensor x) override {
    // The maximum first: ReLU keeps the order, and works on a quarter of the pixels.
    x = checkpoint(*conv1_, x,
                   [this](const torch::Tensor& y) { return at::max_pool2d(conv1_->forward(y), 2).relu_(); });
    x = checkpoint(*conv2_, x,
                   [this](const torch::Tensor& y) { return at::max_pool2d(conv2_->forward(y), 2).relu_(); });
    x = hidden_->forward(x.flatten(1)).relu_();
    x = dropout_->forward(x);
    return output_->forward(x);
  }

 private:
  torch::nn::Dropout dropout_{nullptr};
  torch::nn::Conv2d conv1_{nullptr}, conv2_{nullptr};
  Linear hidden_{nullptr}, output_{nullptr};
};

std::shared_ptr<Network> make_cnn(const Parameters& p, const SampleShape& shape) {
  if (shape.input.size() != 3)
    fail_model("cnn", "takes images", "use mlp for vectors, transformer for tokens");
  if (shape.input[1] < 4 || shape.input[2] < 4)
    fail_model("cnn", "takes images of at least 4 × 4 pixels", "use mlp");
  return std::make_shared<Cnn>(CnnOptions{.channels = shape.input[0],
                                          .height = shape.input[1],
                                          .width_pixels = shape.input[2],
                                          .width = p.integer("width"),
                                          .hidden = p.integer("hidden"),
                                          .classes = shape.classes,
                                          .dropout = p.real("dropout")});
}

}  // namespace

ModelRow cnn_row() {
  return {{"cnn",
           "Two 3 × 3 convolutions with maximum pooling and two linear layers; no normalisation layers.",
           {integer_key("width", "Channels of the first convolution; the second has twice as many.", 32)
                .from(1, 1 << 14),
            integer_key("hidden", "Units of the hidden linear layer.", 128).from(1, 1 << 20),
            real_key("dropout", "Probability that a hidden unit is dropped.", 0.0).from(0, 0.99)}},
          make_cnn};
}

}  // namespace autotrain
