#include "step/loss_surface.h"

#include <cmath>

#include "support/support.h"
#include "support/tasks.h"

namespace autotrain {
namespace {

using test::SmallNet;

// In float64, with a loss whose weights differ from sample to sample.
class DoubleTask final : public Task {
 public:
  explicit DoubleTask(SmallNet::Middle middle = SmallNet::Middle::kNothing, int64_t hidden = 5)
      : net_(std::make_shared<SmallNet>(middle, 6, hidden)) {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(7);
    const torch::NoGradGuard no_gradients;
    net_->to(torch::kFloat64);
    for (torch::Tensor& parameter : net_->parameters())
      parameter.copy_(at::randn(parameter.sizes(), generator, torch::kFloat64));
  }
  torch::nn::Module& module() override { return *net_; }
  LossTerms loss(const Batch& batch) override {
    const torch::Tensor weights = batch.inputs.select(1, 0).abs();
    const torch::Tensor losses =
        at::cross_entropy_loss(net_->forward(batch.inputs), batch.targets, {}, at::Reduction::None);
    return {(losses * weights).sum(), weights.sum()};
  }

 private:
  std::shared_ptr<SmallNet> net_;
};

// 24 samples in pieces of `size`.
std::function<void(const LossSurface::Use&)> batches_of(int64_t size) {
  return [size](const LossSurface::Use& use) {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(3);
    const torch::Tensor inputs = at::randn({24, 6}, generator, torch::kFloat64);
    const torch::Tensor targets = inputs.slice(1, 0, 4).argmax(1);
    for (int64_t first = 0; first < 24; first += size) {
      use({inputs.slice(0, first, first + size), targets.slice(0, first, first + size),
           std::min(size, 24 - first)});
    }
  };
}

torch::Tensor drawn(int64_t size, uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  return at::randn({size}, generator, torch::kFloat64);
}

double relative_error(const torch::Tensor& found, const torch::Tensor& expected) {
  return (found - expected).norm().item<double>() / expected.norm().item<double>();
}

// Central differences of the gradient, a column for each parameter: nothing of what is tested.
torch::Tensor hessian_by_differences(LossSurface& surface, std::vector<torch::Tensor> parameters) {
  constexpr double kStep = 1e-5;
  const torch::NoGradGuard no_gradients;
  std::vector<torch::Tensor> columns;
  for (torch::Tensor& parameter : parameters) {
    torch::Tensor elements = parameter.view({-1});
    for (int64_t i = 0; i < elements.numel(); ++i) {
      const auto gradient_at = [&](double step) {
        const double kept = elements[i].item<double>();
        elements[i] += step;
        const torch::Tensor gradient = surface.gradient();
        elements[i] = kept;
        return gradient;
      };
      columns.push_back((gradient_at(kStep) - gradient_at(-kStep)) / (2 * kStep));
    }
  }
  return torch::stack(columns, 1);
}

TEST(LossSurface, ProductsWithTheHessianAreThoseOfTheWholeHessianAndOfDifferencesOfTheGradient) {
  for (const auto middle :
       {SmallNet::Middle::kNothing, SmallNet::Middle::kBatchNorm, SmallNet::Middle::kDropout}) {
    DoubleTask task(middle);
    task.module().eval();
    LossSurface surface(task, batches_of(24));
    const torch::Tensor hessian = hessian_by_differences(surface, task.module().parameters());
    ASSERT_EQ(hessian.size(0), surface.size());
    std::vector<torch::Tensor> rows;
    for (int64_t i = 0; i < surface.size(); ++i) {
      torch::Tensor unit = torch::zeros({surface.size()}, torch::kFloat64);
      unit[i] = 1;
      rows.push_back(surface.times_hessian(unit));
    }
    const torch::Tensor whole = torch::stack(rows);
    EXPECT_LT(relative_error(whole, hessian), 1e-4);
    EXPECT_LT(relative_error(whole, whole.t()), 1e-10) << "it is symmetric";
    const torch::Tensor direction = drawn(surface.size(), 11);
    EXPECT_LT(relative_error(surface.times_hessian(direction), hessian.mv(direction)), 1e-4);
    const double expected = torch::linalg_eigvalsh(whole)[-1].item<double>();
    const Eigenvalue found = largest_eigenvalue(
        [&](const torch::Tensor& v) { return surface.times_hessian(v); }, surface.weights());
    EXPECT_NEAR(found.value, expected, 1e-3 * expected);
    EXPECT_LE(expected - found.value, found.error + 1e-12);
  }
}

TEST(LossSurface, DoesNotDependOnHowItsSamplesAreCut) {
  DoubleTask task;
  task.module().eval();
  LossSurface whole(task, batches_of(24)), pieces(task, batches_of(5));
  const torch::Tensor direction = drawn(whole.size(), 5);
  EXPECT_NEAR(pieces.loss(), whole.loss(), 1e-12);
  EXPECT_LT(relative_error(pieces.gradient(), whole.gradient()), 1e-12);
  EXPECT_LT(relative_error(pieces.times_hessian(direction), whole.times_hessian(direction)), 1e-12);
}

TEST(LossSurface, AStepAlongADirectionLeavesNoTrace) {
  DoubleTask task;
  task.module().eval();
  LossSurface surface(task, batches_of(24));
  const torch::Tensor before = surface.weights(), direction = drawn(surface.size(), 5);
  const double loss = surface.loss();
  const double step = 1e-4;
  const double slope =
      (surface.loss_along(direction, step) - surface.loss_along(direction, -step)) / (2 * step);
  EXPECT_NEAR(slope, at::dot(surface.gradient(), direction).item<double>(), 1e-5);
  EXPECT_TRUE(surface.weights().equal(before));
  EXPECT_EQ(surface.loss(), loss);
}

TEST(LossSurface, RelativeDirectionsAreAsLongAsTheWeightsRowByRowHoweverTheyAreScaled) {
  DoubleTask task;
  LossSurface surface(task, batches_of(24));
  const auto parameters = task.module().named_parameters();
  const torch::Tensor direction = surface.relative_direction(2);
  const torch::Tensor first = direction.narrow(0, 0, 30).view({5, 6});
  EXPECT_TRUE(torch::allclose(first.norm(2, 1), parameters["first.weight"].norm(2, 1)));
  EXPECT_EQ(direction.narrow(0, 30, 5).abs().max().item<double>(), 0) << "biases stay";
  EXPECT_TRUE(surface.relative_direction(2).equal(direction));
  EXPECT_FALSE(surface.relative_direction(3).equal(direction));
  {
    const torch::NoGradGuard no_gradients;
    parameters["first.weight"].mul_(8);
  }
  EXPECT_TRUE(torch::allclose(surface.relative_direction(2).narrow(0, 0, 30).view({5, 6}), 8 * first));
}

// As an exported model's prediction: it has no gradient in evaluation mode.
TEST(LossSurface, ALossThatAutogradDoesNotSeeIsSaidToBeOne) {
  class Detached final : public Task {
   public:
    torch::nn::Module& module() override { return inner.module(); }
    LossTerms loss(const Batch& batch) override {
      const LossTerms terms = inner.loss(batch);
      return {terms.sum.detach(), terms.weight};
    }
    DoubleTask inner;
  } task;
  LossSurface surface(task, batches_of(24));
  EXPECT_THROW(surface.times_hessian(surface.weights()), std::runtime_error);
}

TEST(LossSurface, AttentionIsDifferentiatedTwice) {
  class Attention final : public Task {
   public:
    struct Net : torch::nn::Module {
      Net() {
        auto generator = at::make_generator<at::CPUGeneratorImpl>(7);
        mix = register_parameter("mix", at::randn({8, 8}, generator, torch::kFloat64));
      }
      torch::Tensor mix;
    };
    torch::nn::Module& module() override { return *net; }
    LossTerms loss(const Batch& batch) override {
      const torch::Tensor x = batch.inputs.matmul(net->mix).unsqueeze(1);
      return {at::scaled_dot_product_attention(x, x, x).square().sum(), torch::ones({})};
    }
    std::shared_ptr<Net> net = std::make_shared<Net>();
  } task;
  auto generator = at::make_generator<at::CPUGeneratorImpl>(3);
  const torch::Tensor inputs = 0.3 * at::randn({2, 3, 8}, generator, torch::kFloat64);
  LossSurface surface(task, [&](const LossSurface::Use& use) { use({inputs, {}, 2}); });
  const torch::Tensor hessian = hessian_by_differences(surface, task.module().parameters());
  const torch::Tensor direction = drawn(64, 1);
  EXPECT_LT(relative_error(surface.times_hessian(direction), hessian.mv(direction)), 1e-4);
}

// A symmetric matrix with known eigenvalues.
torch::Tensor matrix_of(const torch::Tensor& eigenvalues) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(9);
  const int64_t n = eigenvalues.numel();
  const auto [q, r] = at::linalg_qr(at::randn({n, n}, generator, torch::kFloat64));
  return q.matmul(eigenvalues.diag()).matmul(q.t());
}

TEST(Lanczos, FindsTheLargestEigenvalueAndBoundsItsError) {
  const torch::Tensor eigenvalues =
      torch::cat({torch::linspace(-9, 2, 198, torch::kFloat64), torch::tensor({3.0, 5.0}, torch::kFloat64)});
  const torch::Tensor matrix = matrix_of(eigenvalues);
  int64_t products = 0;
  const auto multiply = [&](const torch::Tensor& v) { return ++products, matrix.mv(v); };
  const torch::Tensor like = torch::empty({200}, torch::kFloat64);
  const Eigenvalue found = largest_eigenvalue(multiply, like);
  EXPECT_EQ(found.products, products);
  EXPECT_LE(products, 30);
  EXPECT_NEAR(found.value, 5, 1e-2) << "not that of the largest magnitude, which is −9";
  EXPECT_LE(std::abs(found.value - 5), found.error + 1e-9);
  EXPECT_EQ(largest_eigenvalue(multiply, like).value, found.value) << "the same seed";
  const Eigenvalue short_of = largest_eigenvalue(multiply, like, {.most_steps = 3});
  EXPECT_GT(short_of.error, found.error);
}

TEST(Lanczos, EndsWhereTheSpaceDoes) {
  const torch::Tensor one = torch::eye(4, torch::kFloat64) * 3;
  const Eigenvalue found = largest_eigenvalue([&](const torch::Tensor& v) { return one.mv(v); }, one[0]);
  EXPECT_NEAR(found.value, 3, 1e-12);
  EXPECT_EQ(found.products, 1);
  const Eigenvalue zero = largest_eigenvalue([](const torch::Tensor& v) { return 0 * v; }, one[0]);
  EXPECT_EQ(zero.value, 0);
  const Eigenvalue none = largest_eigenvalue([](const torch::Tensor& v) { return v / 0; }, one[0]);
  EXPECT_TRUE(std::isnan(none.value));
}

}  // namespace
}  // namespace autotrain
