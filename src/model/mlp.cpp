#include <torch/nn/modules/dropout.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "autotrain/checkpoint.h"
#include "model/linear.h"
#include "model/models.h"

namespace autotrain {
namespace {

struct MlpOptions {
  int64_t inputs = 0;
  int64_t depth = 0;
  int64_t width = 0;
  int64_t classes = 0;
  double dropout = 0;
};

// inputs flattened → depth × (linear, ReLU, dropout) → linear
class Mlp final : public Network {
 public:
  explicit Mlp(const MlpOptions& o)
      : in_block_(static_cast<size_t>(std::ceil(std::sqrt(static_cast<double>(o.depth))))) {
    int64_t inputs = o.inputs;
    for (int64_t i = 0; i < o.depth; ++i, inputs = o.width) {
      hidden_.push_back(register_module("hidden" + std::to_string(i), Linear(inputs, o.width)));
    }
    dropout_ = register_module("dropout", torch::nn::Dropout(o.dropout));
    output_ = register_module("output", Linear(inputs, o.classes));
  }

  torch::Tensor forward(torch::Tensor x) override {
    x = x.flatten(1);
    for (size_t first = 0; first < hidden_.size(); first += in_block_) {
      x = checkpoint(*this, x, [this, first](const torch::Tensor& y) { return layers_from(first, y); });
    }
    return output_->forward(x);
  }

 private:
  // Those of one block, of which there are as many as a block has layers: so least is kept.
  torch::Tensor layers_from(size_t first, torch::Tensor x) {
    for (size_t i = first; i < std::min(first + in_block_, hidden_.size()); ++i) {
      x = hidden_[i]->forward(x).relu_();  // in place: a linear layer does not need its output
      x = dropout_->forward(x);
    }
    return x;
  }

  size_t in_block_;
  torch::nn::Dropout dropout_{nullptr};
  std::vector<Linear> hidden_;
  Linear output_{nullptr};
};

std::shared_ptr<Network> make_mlp(const Parameters& p, const SampleShape& shape) {
  if (shape.vocabulary > 0) fail_model("mlp", "takes images or vectors, not tokens", "use transformer");
  const int64_t inputs =
      std::accumulate(shape.input.begin(), shape.input.end(), int64_t{1}, std::multiplies<>());
  return std::make_shared<Mlp>(MlpOptions{.inputs = inputs,
                                          .depth = p.integer("depth"),
                                          .width = p.integer("width"),
                                          .classes = shape.classes,
                                          .dropout = p.real("dropout")});
}

}  // namespace

ModelRow mlp_row() {
  return {{"mlp",
           "Fully connected layers with ReLU over flattened inputs.",
           {integer_key("depth", "Hidden layers.", 2).from(1, 1000),
            integer_key("width", "Units of a hidden layer.", 256).from(1, 1 << 20),
            real_key("dropout", "Probability that a hidden unit is dropped.", 0.0).from(0, 0.99)}},
          make_mlp};
}

}  // namespace autotrain
