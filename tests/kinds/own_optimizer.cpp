#include <torch/optim/serialize.h>
#include <torch/serialize/archive.h>

#include "kinds/kind.h"

namespace kinds::own_optimizer {
namespace {

// program: an optimizer of one's own, which makes the momentum of matrices orthogonal (Muon)
struct MuonOptions : torch::optim::OptimizerCloneableOptions<MuonOptions> {
  explicit MuonOptions(double rate = 0.02) : lr(rate) {}
  double get_lr() const override { return lr; }
  void set_lr(double rate) override { lr = rate; }
  void serialize(torch::serialize::OutputArchive& archive) const override { archive.write("lr", lr); }
  void serialize(torch::serialize::InputArchive& archive) override {
    c10::IValue value;
    archive.read("lr", value);
    lr = value.toDouble();
  }
  double lr;
};

struct MuonState : torch::optim::OptimizerCloneableParamState<MuonState> {
  void serialize(torch::serialize::OutputArchive& archive) const override {
    archive.write("speed", speed, true);
  }
  void serialize(torch::serialize::InputArchive& archive) override { archive.read("speed", speed, true); }
  torch::Tensor speed;
};

class Muon final : public torch::optim::Optimizer {
 public:
  explicit Muon(std::vector<torch::Tensor> parameters)
      : Optimizer(std::move(parameters), std::make_unique<MuonOptions>()) {}

  torch::Tensor step(LossClosure) override {
    const torch::NoGradGuard no_gradients;
    for (auto& group : param_groups_) {
      const double lr = group.options().get_lr();
      for (const torch::Tensor& parameter : group.params()) {
        if (!parameter.grad().defined()) continue;
        auto& state = state_[parameter.unsafeGetTensorImpl()];
        if (!state) {
          state = std::make_unique<MuonState>();
          static_cast<MuonState&>(*state).speed = torch::zeros_like(parameter);
        }
        const torch::Tensor& speed = static_cast<MuonState&>(*state).speed;
        speed.mul_(0.9).add_(parameter.grad());
        parameter.sub_(speed.dim() == 2 ? orthogonal(speed) : speed, lr);
      }
    }
    return {};
  }
  void save(torch::serialize::OutputArchive& archive) const override {
    torch::optim::serialize<MuonState, MuonOptions>(archive, *this);
  }
  void load(torch::serialize::InputArchive& archive) override {
    torch::optim::serialize<MuonState, MuonOptions>(archive, *this);
  }

 private:
  static torch::Tensor orthogonal(const torch::Tensor& matrix) {
    torch::Tensor x = matrix / (matrix.norm() + 1e-7);
    for (int i = 0; i < 5; ++i) {
      const torch::Tensor square = x.mm(x.t());
      x = 1.5 * x - 0.5 * square.mm(x);
    }
    return x;
  }
};

std::unique_ptr<torch::optim::Optimizer> muon(std::vector<torch::Tensor> parameters) {
  return std::make_unique<Muon>(std::move(parameters));
}

Program make() {
  return {.task = supervised(layers({4, 16, 4}), cross_entropy()),
          .data = points(),
          .optimizers = {{.name = "muon", .make = muon}},
          .recipe = Program::plain_recipe("", 0)};
}

// by hand
void by_hand(Program& program) {
  auto& net = dynamic_cast<torch::nn::SequentialImpl&>(program.module());
  Muon own(net.parameters());
  train(program, own,
        [&](const Batch& batch) { return at::cross_entropy_loss(net.forward(batch.inputs), batch.targets); });
}

const Register kind({.name = "own optimizer", .file = __FILE__, .make = make, .by_hand = by_hand});

}  // namespace
}  // namespace kinds::own_optimizer
