// A program with parts of its own, which recipes name, and with the whole command line: rings.yaml trains it.
#include <autotrain/program.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>

#include <cmath>
#include <cstdlib>
#include <numbers>

namespace {

using autotrain::Batch;
using autotrain::OwnStep;
using autotrain::OwnValues;

// Points on rings around the origin, each ring a class.
std::unique_ptr<autotrain::Dataset> make_rings(const OwnValues& values) {
  const int64_t samples = values.integer("samples"), rings = values.integer("rings");
  if (std::getenv("RINGS_THROW_A_NUMBER") != nullptr) throw 7;
  const auto generator =
      at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(values.integer("seed")));
  const torch::Tensor ring = at::arange(samples).remainder(rings);
  const torch::Tensor angle = at::rand({samples}, generator) * (2 * std::numbers::pi);
  const torch::Tensor radius = ring + 1 + values.real("noise") * at::randn({samples}, generator);
  return std::make_unique<autotrain::TensorDataset>(
      torch::stack({radius * angle.cos(), radius * angle.sin()}, 1), ring, rings);
}

struct PolarNet : torch::nn::Module {
  PolarNet(int64_t width, int64_t classes)
      : hidden(register_module("hidden", torch::nn::Linear(3, width))),
        output(register_module("output", torch::nn::Linear(width, classes))) {}

  torch::Tensor forward(const torch::Tensor& points) {
    const torch::Tensor radius = points.square().sum(1, /*keepdim=*/true).sqrt();
    return output(torch::relu(hidden(torch::cat({points, radius}, 1))));
  }

  torch::nn::Linear hidden, output;
};

autotrain::OwnNetwork make_polar(const OwnValues& values, const autotrain::DatasetInfo& samples) {
  const auto net = std::make_shared<PolarNet>(values.integer("width"), samples.classes);
  return {net, [net](const Batch& batch) { return net->forward(batch.inputs); }};
}

// The share of samples whose class is among those next to the predicted one.
class NearMiss final : public autotrain::PredictionMetric {
 public:
  autotrain::MetricState measure(const torch::Tensor& prediction,
                                 const torch::Tensor& target) const override {
    const torch::Tensor near = (prediction.argmax(1) - target).abs().le(1);
    return {.sums = {near.sum().to(torch::kFloat64), torch::tensor(static_cast<double>(target.size(0)))}};
  }
  std::vector<autotrain::Figure> figures(const autotrain::MetricState& whole) const override {
    const torch::Tensor share = whole.sums[0] / whole.sums[1];
    return {{"near_miss", share.item<double>(), {.better = autotrain::Better::kHigher, .share = true}}};
  }
};

autotrain::Loss make_margin(const OwnValues& values) {
  const double margin = values.real("margin");
  return {[margin](const torch::Tensor& prediction, const torch::Tensor& target) -> autotrain::LossTerms {
            return {at::multi_margin_loss(prediction, target, 1, margin, {}, at::Reduction::Sum),
                    torch::tensor(static_cast<double>(target.size(0)))};
          },
          {autotrain::make_metric("accuracy"), std::make_shared<NearMiss>()}};
}

// Polyak's heavy ball: the rule that `sgd` with momentum computes, too.
std::function<void(const OwnStep&)> make_heavy_ball(const OwnValues& values) {
  return [mass = values.real("mass")](const OwnStep& step) {
    const torch::Tensor& speed = step.states[0];
    speed.mul_(mass).add_(step.gradient);
    step.parameter.sub_(speed, step.lr);
  };
}

// One of LibTorch's kind; the recipe's rate takes the place of its own.
std::unique_ptr<torch::optim::Optimizer> make_adam(const OwnValues& values,
                                                   std::vector<torch::Tensor> parameters,
                                                   double weight_decay) {
  return std::make_unique<torch::optim::Adam>(
      std::move(parameters),
      torch::optim::AdamOptions().betas({values.real("beta1"), 0.999}).weight_decay(weight_decay));
}

std::function<double(double, double)> make_triangle(const OwnValues& values) {
  return [peak = values.real("peak")](double update, double length) {
    const double x = length > 0 ? update / length : 1;
    return x < peak ? x / peak : (1 - x) / (1 - peak);
  };
}

}  // namespace

int main(int argc, char** argv) {
  return autotrain::run_main(
      argc, argv,
      {.models = {{{"polar_net",
                    "Two linear layers over a point and its radius.",
                    {{"width", "Units of the hidden layer.", int64_t{32}, 1, 4096}}},
                   make_polar}},
       .datasets = {{{"rings",
                      "Points on rings, each a class.",
                      {{"samples", "How many.", int64_t{2000}, 1},
                       {"rings", "Classes.", int64_t{3}, 2, 100},
                       {"noise", "Standard deviation of the radius.", 0.1, 0, 10},
                       {"seed", "Draws the points.", int64_t{1}}}},
                     make_rings}},
       .losses = {{{"margin", "The multi-class hinge.", {{"margin", "Its margin.", 1.0, 0, 100}}},
                   make_margin}},
       .metrics = {{{"near_miss", "Share of predictions at most one ring off."},
                    {autotrain::TargetKind::kClasses},
                    [](const autotrain::MetricOptions&) { return std::make_shared<NearMiss>(); }}},
       .schedules =
           {{{"triangle", "Up and down in straight lines.", {{"peak", "Where the top is.", 0.3, 0.01, 0.99}}},
             make_triangle}},
       .optimizers = {
           {.part = {"heavy_ball", "Momentum without damping.", {{"mass", "What is kept.", 0.9, 0, 1}}},
            .states = {"speed"},
            .make = make_heavy_ball},
           {.part = {"torch_adam", "LibTorch's own.", {{"beta1", "Decay of the mean.", 0.9, 0, 0.999}}},
            .adaptive = true,
            .make_torch = make_adam}}});
}
