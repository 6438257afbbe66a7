#include "kinds/kind.h"

namespace kinds::codebook {
namespace {

// program: an autoencoder over codes that follow what is near them (VQ-VAE with averages)
struct Codebook final : PartsTask {
  Codebook() {
    codes = parts->register_buffer("codes", numbers({8, 3}));
    members = parts->register_buffer("members", torch::ones({8}));
    places = parts->register_buffer("places", codes.clone());
  }
  struct Coded {
    torch::Tensor sum, place, code;
  };
  Coded terms(const Batch& batch) {
    const torch::Tensor place = encoder->forward(batch.inputs);
    const torch::Tensor code = at::cdist(place.detach(), codes).argmin(1);
    const torch::Tensor coded = codes.index_select(0, code);
    const torch::Tensor out = decoder->forward(place + (coded - place).detach());
    return {(out - batch.inputs).square().sum() + 0.25 * (place - coded).square().sum(), place.detach(),
            code};
  }
  void begin_update(const UpdateInfo&) override {
    met.zero_();
    met_at.zero_();
  }
  LossTerms loss(const Batch& batch) override {
    const Coded coded = terms(batch);
    met.index_add_(0, coded.code, torch::ones({batch.samples}));
    met_at.index_add_(0, coded.code, coded.place);
    return {coded.sum, count(batch)};
  }
  void after_step(const UpdateInfo&) override { follow(met, met_at); }
  void follow(const torch::Tensor& counts, const torch::Tensor& sums) {
    members.lerp_(counts, 0.2);
    places.lerp_(sums, 0.2);
    codes.copy_(places / members.unsqueeze(1));
  }
  std::vector<NamedTensor> state() override { return {{"met", met}, {"met_at", met_at}}; }

  Layers encoder = add("encoder", layers({4, 16, 3})), decoder = add("decoder", layers({3, 16, 4}));
  torch::Tensor codes, members, places, met = torch::zeros({8}), met_at = torch::zeros({8, 3});
};

Program make() {
  return {
      .task = std::make_unique<Codebook>(), .data = points(), .recipe = Program::plain_recipe("sgd", 0.01)};
}

// by hand
void by_hand(Program& program) {
  auto& task = dynamic_cast<Codebook&>(*program.task);
  torch::optim::SGD sgd(task.module().parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));
  for (int64_t update = 1; update <= kUpdates; ++update) {
    sgd.zero_grad();
    const Codebook::Coded coded = task.terms(program.batch(update));
    (coded.sum / kBatch).backward();
    sgd.step();
    const torch::Tensor chosen = at::one_hot(coded.code, 8).to(torch::kFloat32);
    task.follow(chosen.sum(0), chosen.t().mm(coded.place));
  }
}

const Register kind(
    {.name = "codebook that follows", .file = __FILE__, .make = make, .by_hand = by_hand, .ranks = false});

}  // namespace
}  // namespace kinds::codebook
