#include "base/random.h"
#include "support/ragged.h"
#include "support/samples.h"

namespace autotrain {
namespace {

using test::Ragged;
using test::samples;

struct Result {
  double loss = 0, weight = 0;
  std::vector<torch::Tensor> gradients = {};
};

Result result_of(Task& task, const Batch& batch) {
  task.module().zero_grad();
  const LossTerms terms = task.loss(batch);
  terms.sum.backward();
  Result result{.loss = terms.sum.item<double>(), .weight = terms.weight.item<double>()};
  for (const torch::Tensor& parameter : task.module().parameters()) {
    result.gradients.push_back(parameter.grad().clone());
  }
  return result;
}

Batch padded(const Batch& batch, int64_t by, int64_t token) {
  const auto with = [&](const torch::Tensor& tensor, int64_t value) {
    return torch::cat({tensor, torch::full({batch.samples, by}, value)}, 1);
  };
  return {with(batch.inputs, token), with(batch.targets, -100), batch.samples};
}

// A position sees only those before it, so what stands behind a sample's end reaches neither its loss nor a
// gradient. float32 sums in another order: a few units in the last place.
TEST(Transformer, NeitherLossNorGradientDependOnThePadding) {
  Random random(1);
  for (int round = 0; round < 20; ++round) {
    const Ragged data(test::random_lengths(5, random));
    const auto task = test::ragged_task(40);
    const Batch batch = samples(data, {0, 1, 2, 3, 4});
    const Result plain = result_of(*task, batch);
    const Result wide =
        result_of(*task, padded(batch, 1 + random.below(16), random.below(Ragged::kVocabulary)));
    EXPECT_EQ(wide.weight, plain.weight);
    EXPECT_NEAR(wide.loss / plain.loss, 1, 1e-6);
    for (size_t i = 0; i < plain.gradients.size(); ++i) {
      EXPECT_TRUE(wide.gradients[i].allclose(plain.gradients[i], 1e-4, 1e-5)) << "parameter " << i;
    }
  }
}

TEST(Transformer, ABatchOfAnyLengthsIsTheSumOfItsSamples) {
  Random random(2);
  const Ragged data(test::random_lengths(6, random));
  const auto task = test::ragged_task(data.longest());
  const Result whole = result_of(*task, samples(data, {0, 1, 2, 3, 4, 5}));
  double loss = 0, weight = 0;
  for (int64_t i = 0; i < 6; ++i) {
    const Result one = result_of(*task, samples(data, {i}));
    loss += one.loss, weight += one.weight;
  }
  EXPECT_EQ(whole.weight, weight);
  EXPECT_NEAR(whole.loss / loss, 1, 1e-6);
}

}  // namespace
}  // namespace autotrain
