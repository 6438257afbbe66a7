#include <torch/nn/modules/linear.h>

#include <numeric>

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
  explicit Mlp(const MlpOptions& o) : dropout_(o.dropout) {
    int64_t inputs = o.inputs;
    for (int64_t i = 0; i < o.depth; ++i, inputs = o.width) {
      hidden_.push_back(register_module("hidden" + std::to_string(i), torch::nn::Linear(inputs, o.width)));
    }
    output_ = register_module("output", torch::nn::Linear(inputs, o.classes));
  }

  torch::Tensor forward(torch::Tensor x) override {
    x = x.flatten(1);
    for (torch::nn::Linear& layer : hidden_) {
      x = layer->forward(x).relu_();  // in place: a linear layer does not need its output
      if (dropout_ > 0) x = at::dropout(x, dropout_, is_training());
    }
    return output_->forward(x);
  }

 private:
  double dropout_;
  std::vector<torch::nn::Linear> hidden_;
  torch::nn::Linear output_{nullptr};
};

std::shared_ptr<Network> make(const Parameters& p, const SampleShape& shape) {
  if (shape.vocabulary > 0) fail_model("mlp", "takes images or vectors, not tokens", "use transformer");
  const int64_t inputs =
      std::accumulate(shape.input.begin(), shape.input.end(), int64_t{1}, std::multiplies<>());
  return std::make_shared<Mlp>(MlpOptions{.inputs = inputs, .depth = p.integer("depth"),
                                          .width = p.integer("width"), .classes = shape.classes,
                                          .dropout = p.real("dropout")});
}

}  // namespace

ModelRow mlp_row() {
  return {{"mlp",
           "Fully connected layers with ReLU over flattened inputs.",
           {{.name = "depth", .kind = KeyKind::kInteger, .fallback = int64_t{2}, .sentence = "Hidden layers.",
             .least = 1, .most = 1000},
            {.name = "width", .kind = KeyKind::kInteger, .fallback = int64_t{256},
             .sentence = "Units of a hidden layer.", .least = 1, .most = 1 << 20},
            {.name = "dropout", .kind = KeyKind::kReal, .fallback = 0.0,
             .sentence = "Probability that a hidden unit is dropped.", .least = 0, .most = 0.99}}},
          make};
}

}  // namespace autotrain
