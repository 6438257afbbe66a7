#include <ATen/CPUGeneratorImpl.h>
#include <torch/nn/modules/container/functional.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>

#include <map>

#include "autotrain/random.h"
#include "autotrain/trainer.h"
#include "base/text.h"
#include "support/small_run.h"

// Kinds of research, each held against a loop that is written by hand over the same batches.
namespace autotrain {
namespace {

constexpr int64_t kFeatures = 4, kLength = 12, kBatch = 32;

const TensorDataset& points() {
  static const TensorDataset data = [] {
    const auto generator = at::make_generator<at::CPUGeneratorImpl>(4);
    return TensorDataset(at::randn({320, kFeatures}, generator));
  }();
  return data;
}

std::shared_ptr<torch::nn::SequentialImpl> layers(std::vector<int64_t> widths) {
  auto made = std::make_shared<torch::nn::SequentialImpl>();
  for (size_t i = 0; i + 1 < widths.size(); ++i) {
    if (i > 0) made->push_back(torch::nn::Functional(torch::tanh));
    made->push_back(torch::nn::Linear(widths[i], widths[i + 1]));
  }
  return made;
}

Recipe kind_recipe(int64_t micro, const std::string& optimizer, double lr) {
  Recipe r = test::small_recipe();
  r.batch.effective = kBatch;
  r.batch.lr_rule = "none";
  r.execution.micro_batch = micro;
  r.execution.memory.budget = *Budget::parse("64MiB");
  r.optimizer.algorithm = {optimizer, {}};
  if (optimizer == "sgd") r.optimizer.algorithm.parameters["momentum"] = 0.9;
  r.optimizer.lr = lr;
  r.optimizer.weight_decay = 0;
  r.optimizer.clip_norm = std::nullopt;
  r.stop = {};
  r.stop.updates = kLength;
  return r;
}

// What a task saw in the updates of its run, window by window.
struct Seen {
  std::map<int64_t, std::vector<torch::Tensor>> inputs, noise;  // by update

  torch::Tensor inputs_of(int64_t update) const { return torch::cat(inputs.at(update)); }
  torch::Tensor noise_of(int64_t update) const { return torch::cat(noise.at(update)); }
};

// A task with several networks that remembers its batches.
class Kind : public Task {
 public:
  torch::nn::Module& module() override { return *all_; }
  bool names_samples() const override { return true; }
  void begin_update(const UpdateInfo& info) override { info_ = info; }

  Seen seen;

 protected:
  using Layers = std::shared_ptr<torch::nn::SequentialImpl>;
  Layers add(const std::string& name, Layers part) { return all_->register_module(name, part); }

  void remember(const Batch& batch, const torch::Tensor& noise) {
    if (info_.trial) return;
    seen.inputs[info_.update].push_back(batch.inputs.clone());
    seen.noise[info_.update].push_back(noise.clone());
  }

  UpdateInfo info_{.update = 1, .trial = true};

 private:
  struct Parts : torch::nn::Module {};
  const std::shared_ptr<Parts> all_ = std::make_shared<Parts>();
};

double gap(const torch::nn::Module& a, const torch::nn::Module& b) {
  double most = 0;
  const auto ours = a.parameters(), theirs = b.parameters();
  for (size_t i = 0; i < ours.size(); ++i)
    most = std::max(most, (ours[i] - theirs[i]).abs().max().item<double>());
  return most;
}

// Single precision, ten updates of rounding apart.
constexpr double kRounding = 2e-5;

// A task with its first weights, always the same.
template <class Task>
std::unique_ptr<Task> seeded() {
  torch::manual_seed(1);
  return std::make_unique<Task>();
}

// A task that was trained, and one like it to be trained by hand.
template <class Task>
struct Beside {
  explicit Beside(const Recipe& recipe) {
    auto task = seeded<Task>();
    own = task.get();
    trainer.emplace(recipe, std::move(task), points(), TrainerOptions{.write_files = false});
    trainer->fit();
  }

  const std::unique_ptr<Task> hand = seeded<Task>();
  Task* own = nullptr;  // the trainer's
  std::optional<Trainer> trainer;
};

// ------------------------------------------------------------------ variational autoencoder

struct Vae final : Kind {
  // Σ over samples of reconstruction and divergence.
  std::pair<torch::Tensor, torch::Tensor> terms(const torch::Tensor& x, const torch::Tensor& noise) {
    const auto halves = encoder->forward(x).chunk(2, 1);
    const torch::Tensor &mean = halves[0], &log_variance = halves[1];
    const torch::Tensor z = mean + noise * (0.5 * log_variance).exp();
    return {(decoder->forward(z) - x).square().sum(),
            -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum()};
  }

  LossTerms loss(const Batch& batch) override {
    const torch::Tensor noise = randn_like(batch.inputs.slice(1, 0, 2), batch, /*draw=*/0);
    remember(batch, noise);
    const auto [reconstruction, divergence] = terms(batch.inputs, noise);
    return {reconstruction + divergence,
            torch::tensor(static_cast<double>(batch.samples)),
            {{"reconstruction", reconstruction}, {"divergence", divergence}}};
  }

  Layers encoder = add("encoder", layers({kFeatures, 4})), decoder = add("decoder", layers({2, kFeatures}));
};

TEST(Kinds, AVariationalAutoencoderIsTheHandLoop) {
  for (const int64_t micro : {kBatch, kBatch / 4}) {
    Beside<Vae> beside(kind_recipe(micro, "adam", 0.01));
    Vae& hand = *beside.hand;
    Vae* const own = beside.own;
    torch::optim::Adam adam(hand.module().parameters(), torch::optim::AdamOptions(0.01));
    for (int64_t update = 1; update <= kLength; ++update) {
      adam.zero_grad();
      const auto [reconstruction, divergence] =
          hand.terms(own->seen.inputs_of(update), own->seen.noise_of(update));
      ((reconstruction + divergence) / static_cast<double>(kBatch)).backward();
      adam.step();
    }
    EXPECT_LT(gap(own->module(), hand.module()), kRounding) << micro;
  }
}

// ------------------------------------------------------------------ two networks that take turns

// Two updates of the discriminator for one of the generator. Whose turn it is not has no gradient, and the
// optimizer leaves parameters without one alone, with their moments.
struct Gan final : Kind {
  static bool is_generators(int64_t update) { return update % 3 == 0; }

  torch::Tensor terms(const torch::Tensor& real, const torch::Tensor& noise, bool generators) {
    const torch::Tensor fake = generator->forward(noise);
    if (generators) {
      const torch::Tensor judged = discriminator->forward(fake);
      return at::softplus(-judged).sum();
    }
    return at::softplus(-discriminator->forward(real)).sum() +
           at::softplus(discriminator->forward(fake.detach())).sum();
  }

  LossTerms loss(const Batch& batch) override {
    const torch::Tensor noise = randn_like(batch.inputs.slice(1, 0, 2), batch, /*draw=*/0);
    remember(batch, noise);
    const bool generators = is_generators(info_.update);
    for (torch::Tensor& parameter : discriminator->parameters()) parameter.requires_grad_(!generators);
    const torch::Tensor sum = terms(batch.inputs, noise, generators);
    return {sum, torch::tensor(static_cast<double>(batch.samples))};
  }

  void after_step(const UpdateInfo&) override {
    for (torch::Tensor& parameter : discriminator->parameters()) parameter.requires_grad_(true);
  }

  Layers generator = add("generator", layers({2, 8, kFeatures})),
         discriminator = add("discriminator", layers({kFeatures, 8, 1}));
};

TEST(Kinds, TwoNetworksThatTakeTurnsAreTheHandLoopWithTwoOptimizers) {
  for (const int64_t micro : {kBatch, kBatch / 4}) {
    Beside<Gan> beside(kind_recipe(micro, "sgd", 0.05));
    Gan& hand = *beside.hand;
    Gan* const own = beside.own;
    const auto momentum = torch::optim::SGDOptions(0.05).momentum(0.9);
    torch::optim::SGD of_generator(hand.generator->parameters(), momentum),
        of_discriminator(hand.discriminator->parameters(), momentum);
    for (int64_t update = 1; update <= kLength; ++update) {
      const bool generators = Gan::is_generators(update);
      of_generator.zero_grad();
      of_discriminator.zero_grad();
      (hand.terms(own->seen.inputs_of(update), own->seen.noise_of(update), generators) /
       static_cast<double>(kBatch))
          .backward();
      generators ? of_generator.step() : of_discriminator.step();
    }
    EXPECT_LT(gap(own->module(), hand.module()), kRounding) << micro;
  }
}

// ------------------------------------------------------------------ bootstrap: a teacher that follows

struct Byol final : Kind {
  Byol() {
    const torch::NoGradGuard no_gradients;
    for (size_t i = 0; i < teacher->parameters().size(); ++i)
      teacher->parameters()[i].copy_(student->parameters()[i]);
  }

  torch::Tensor terms(const torch::Tensor& x, const torch::Tensor& noise) {
    torch::Tensor wanted;
    {
      const torch::NoGradGuard no_gradients;
      wanted = teacher->forward(x - noise);
    }
    return (student->forward(x + noise) - wanted).square().sum();
  }

  void follow() {
    const torch::NoGradGuard no_gradients;
    for (size_t i = 0; i < teacher->parameters().size(); ++i)
      teacher->parameters()[i].lerp_(student->parameters()[i], 0.1);
  }

  LossTerms loss(const Batch& batch) override {
    const torch::Tensor noise = 0.1 * randn_like(batch.inputs, batch, /*draw=*/0);
    remember(batch, noise);
    return {terms(batch.inputs, noise), torch::tensor(static_cast<double>(batch.samples))};
  }
  void after_step(const UpdateInfo&) override { follow(); }
  std::vector<NamedTensor> state() override {
    std::vector<NamedTensor> tensors;
    for (const auto& each : teacher->named_parameters())
      tensors.push_back({"teacher." + each.key(), each.value().detach()});
    if (kept_.empty()) kept_ = tensors;
    return kept_;
  }

  Layers student = add("student", layers({kFeatures, 8, 4})), teacher = layers({kFeatures, 8, 4});

 private:
  std::vector<NamedTensor> kept_;
};

TEST(Kinds, ATeacherThatFollowsIsTheHandLoopAndResumes) {
  const test::TemporaryFolder folder;
  std::map<std::string, std::shared_ptr<torch::nn::SequentialImpl>> teachers;
  const auto run = [&](const std::string& name, int64_t micro, int64_t stop, bool resume) {
    torch::manual_seed(1);
    auto task = std::make_unique<Byol>();
    Byol& own = *task;
    teachers[name] = own.teacher;
    Trainer trainer(kind_recipe(micro, "sgd", 0.05), std::move(task), points(),
                    {.output = folder / name, .resume = resume});
    trainer.on_update(
        [=](const UpdateRecord& u) { return u.update == stop ? Flow::kStop : Flow::kContinue; });
    trainer.fit();
    return own.seen;
  };
  for (const int64_t micro : {kBatch, kBatch / 4}) {
    const std::string name = cat("straight-", micro);
    const Seen seen = run(name, micro, 0, false);
    torch::manual_seed(1);
    Byol hand;
    torch::optim::SGD sgd(hand.student->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
    for (int64_t update = 1; update <= kLength; ++update) {
      sgd.zero_grad();
      (hand.terms(seen.inputs_of(update), seen.noise_of(update)) / static_cast<double>(kBatch)).backward();
      sgd.step();
      hand.follow();
    }
    EXPECT_LT(gap(*teachers[name], *hand.teacher), kRounding) << micro;
  }
  run("stopped", kBatch / 4, 5, false);
  run("stopped", kBatch / 4, 0, true);
  EXPECT_EQ(gap(*teachers["stopped"], *teachers[cat("straight-", kBatch / 4)]), 0) << "the same bits";
}

}  // namespace
}  // namespace autotrain
