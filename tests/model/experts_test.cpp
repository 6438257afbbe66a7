#include "model/experts.h"

#include "base/text.h"
#include "model/losses.h"
#include "model/mixture_task.h"
#include "model/models.h"
#include "model/rounding.h"
#include "support/one_thread.h"
#include "support/support.h"

namespace autotrain {
namespace {

constexpr int64_t kMixtureWidth = 8, kMixtureContext = 12, kMixtureVocabulary = 13;

// With a gate that tells tokens apart, and biases that are not zero.
Experts random_experts(const ExpertOptions& options) {
  torch::manual_seed(5);
  Experts experts(kMixtureWidth, kMixtureContext, options, 0.3);
  const torch::NoGradGuard no_gradients;
  for (torch::Tensor& each : experts->parameters()) each.add_(torch::randn_like(each), 0.7);
  return experts;
}

torch::Tensor expert_parameter(const Experts& experts, const char* name) {
  return experts->named_parameters()[name];
}

torch::Tensor by_expert(const Experts& experts, const torch::Tensor& token, int64_t e) {
  const auto of = [&](const char* name) { return expert_parameter(experts, name)[e]; };
  const torch::Tensor inner = at::gelu(at::linear(token, of("expand"), of("expand_bias")));
  return at::linear(inner, of("contract"), of("contract_bias"));
}

// What one token becomes, by its definition.
torch::Tensor plainly(const Experts& experts, const torch::Tensor& token, const ExpertOptions& o) {
  const torch::Tensor p = at::linear(token, expert_parameter(experts, "gate.weight")).softmax(0);
  const torch::Tensor order = p.argsort(0, /*descending=*/true);
  torch::Tensor sum = torch::zeros({kMixtureWidth});
  double all = 0;
  for (int64_t i = 0; i < o.per_token; ++i) {
    const auto e = order[i].item<int64_t>();
    all += p[e].item<double>();
    sum = sum + p[e] * by_expert(experts, token, e);
  }
  return o.per_token > 1 ? sum / all : sum;
}

TEST(Experts, EachTokenIsComputedByTheLikeliestExperts) {
  const test::OneThread one_thread;
  for (const int64_t k : {1, 2, 3}) {
    const ExpertOptions o{.experts = 5, .per_token = k};
    Experts experts = random_experts(o);
    const torch::Tensor x = torch::randn({3, kMixtureContext, kMixtureWidth}), y = experts->forward(x);
    for (int64_t i = 0; i < 3; ++i) {
      for (int64_t t = 0; t < kMixtureContext; ++t)
        EXPECT_TRUE(y[i][t].allclose(plainly(experts, x[i][t], o), 1e-4, 1e-5)) << k << " experts a token";
    }
    EXPECT_EQ(experts->loads().tokens.sum().item<int64_t>(), 3 * kMixtureContext * k);
  }
}

TEST(Experts, BeyondItsCapacityAnExpertTakesNoTokenOfASequence) {
  const ExpertOptions o{.experts = 4, .per_token = 1, .capacity = 1};
  Experts experts = random_experts(o), unbounded = random_experts({.experts = 4, .per_token = 1});
  const torch::Tensor x = torch::randn({2, kMixtureContext, kMixtureWidth});
  const torch::Tensor all = unbounded->forward(x), kept = experts->forward(x);
  int64_t dropped = 0;
  for (int64_t i = 0; i < 2; ++i) {
    std::vector<int64_t> taken(4);
    for (int64_t t = 0; t < kMixtureContext; ++t) {
      const auto e = at::linear(x[i][t], expert_parameter(experts, "gate.weight")).argmax(0).item<int64_t>();
      const bool fits = ++taken[static_cast<size_t>(e)] <= 3;  // 1 · 12 tokens ÷ 4 experts
      dropped += !fits;
      EXPECT_TRUE(kept[i][t].allclose(fits ? all[i][t] : torch::zeros({kMixtureWidth}), 1e-4, 1e-6));
    }
  }
  EXPECT_GT(dropped, 0);
  EXPECT_EQ(experts->loads().dropped.item<int64_t>(), dropped);
  experts->eval();
  EXPECT_TRUE(experts->forward(x).allclose(all));
}

TEST(Experts, TheirBalanceIsOneWhereTheyAreEvenAndOfTheCountedTokensOnly) {
  const ExpertOptions o{.experts = 4, .per_token = 2};
  Experts experts = random_experts(o);
  const torch::Tensor x = torch::randn({3, kMixtureContext, kMixtureWidth});
  experts->forward(x);
  torch::Tensor counted = torch::ones({3, kMixtureContext}, torch::kBool);
  counted[1].slice(0, 5).fill_(false);
  const torch::Tensor balance = experts->balance(counted);
  for (int64_t i = 0; i < 3; ++i) {
    const torch::Tensor of = x[i].slice(0, 0, i == 1 ? 5 : kMixtureContext);
    const torch::Tensor p = at::linear(of, expert_parameter(experts, "gate.weight")).softmax(-1);
    const torch::Tensor chosen = torch::zeros_like(p).scatter(1, std::get<1>(p.topk(2, 1)), 1.0);
    const double expected = 4 * (chosen.mean(0) / 2 * p.mean(0)).sum().item<double>();
    EXPECT_NEAR(balance[i].item<double>(), expected, 1e-5);
  }
  const torch::NoGradGuard no_gradients;
  expert_parameter(experts, "gate.weight").zero_();
  experts->forward(x);
  EXPECT_NEAR(experts->balance(counted)[0].item<double>(), 1, 1e-5);  // every probability is 1 ÷ 4
}

TEST(Experts, AnUnevenGateGoesMostlyToTheFirst) {
  Experts experts = random_experts({.experts = 4, .per_token = 1, .skew = 20});
  experts->forward(torch::randn({2, kMixtureContext, kMixtureWidth}));
  EXPECT_EQ(experts->loads().tokens[0].item<int64_t>(), 2 * kMixtureContext);
}

TEST(Experts, ThatChooseTokensHaveEquallyManyEach) {
  Experts experts = random_experts({.experts = 4, .per_token = 2, .experts_choose = true});
  experts->forward(torch::randn({2, kMixtureContext, kMixtureWidth}));
  EXPECT_TRUE(experts->loads().tokens.equal(torch::full({4}, 2 * kMixtureContext * 2 / 4)));
}

// Gates of random directions and random tokens: no expert is likelier than another one.
TEST(Experts, DistinctOnesAreAsManyAsTheFormulaSays) {
  const test::OneThread one_thread;
  const ExpertOptions o{.experts = 8, .per_token = 2};
  torch::manual_seed(3);
  for (const int64_t tokens : {1, 4, 16}) {
    double distinct = 0;
    constexpr int kRounds = 100;
    for (int round = 0; round < kRounds; ++round) {
      Experts experts(kMixtureWidth, kMixtureContext, o, 0.1);
      experts->forward(torch::randn({1, tokens, kMixtureWidth}));
      distinct += (experts->loads().tokens > 0).sum().item<double>();
    }
    // Tokens of one gate are not quite independent of each other.
    EXPECT_NEAR(distinct / kRounds / distinct_experts(o, static_cast<double>(tokens)), 1, 0.05)
        << tokens << " tokens";
  }
}

// ------------------------------------------------------------------ training

struct Update {
  double loss = 0, weight = 0;
  std::vector<torch::Tensor> gradients = {};
  std::vector<std::string> parts = {};
};

std::unique_ptr<Task> mixture_task(const std::string& routing, double balance) {
  torch::manual_seed(9);
  auto network = make_model({"transformer",
                             {{"layers", int64_t{2}},
                              {"width", int64_t{16}},
                              {"heads", int64_t{2}},
                              {"experts", int64_t{4}},
                              {"routing", routing},
                              {"capacity", 1.25},
                              {"balance", balance}}},
                            {{kMixtureContext}, kMixtureVocabulary, kMixtureVocabulary});
  const Choice loss{"cross_entropy", {}};
  return make_mixture_task(network, loss, make_loss(loss));
}

// The micro-batches of an update one after the other.
Update update_of(Task& task, const std::vector<Batch>& batches) {
  task.module().zero_grad();
  Update update;
  for (const Batch& batch : batches) {
    const LossTerms terms = task.loss(batch);
    terms.sum.backward();
    update.loss += terms.sum.item<double>();
    update.weight += terms.weight.item<double>();
    update.parts.clear();
    for (const NamedTensor& part : terms.parts) update.parts.push_back(part.name);
  }
  for (const torch::Tensor& each : task.module().parameters())
    update.gradients.push_back(each.grad().clone());
  return update;
}

Batch part_of(const Batch& batch, int64_t first, int64_t n, int64_t length) {
  const auto of = [&](const torch::Tensor& t) { return t.narrow(0, first, n).narrow(1, 0, length); };
  return {of(batch.inputs), of(batch.targets), n};
}

Batch ragged_batch() {
  Batch batch{torch::randint(kMixtureVocabulary, {4, kMixtureContext}),
              torch::randint(kMixtureVocabulary, {4, kMixtureContext}), 4};
  batch.targets.narrow(0, 2, 2).slice(1, 7).fill_(-100);  // the last two samples are shorter
  return batch;
}

double difference_of(const Update& a, const Update& b) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < a.gradients.size(); ++i) {
    difference += (a.gradients[i] - b.gradients[i]).square().sum().item<double>();
    norm += a.gradients[i].square().sum().item<double>();
  }
  return std::sqrt(difference / norm);
}

TEST(MixtureTask, AnUpdateIsTheSameHoweverItIsCutAndPadded) {
  const auto task = mixture_task("tokens_choose", 0.5);
  const Batch batch = ragged_batch();
  const Update whole = update_of(*task, {batch});
  const Update cut = update_of(*task, {part_of(batch, 0, 1, kMixtureContext),
                                       part_of(batch, 1, 1, kMixtureContext), part_of(batch, 2, 2, 7)});
  EXPECT_EQ(whole.weight, 4 * kMixtureContext - 10);
  EXPECT_EQ(cut.weight, whole.weight);
  EXPECT_NEAR(cut.loss / whole.loss, 1, 1e-5);
  EXPECT_LT(difference_of(whole, cut), 1e-4);
  EXPECT_EQ(whole.parts, (std::vector<std::string>{"task", "balance", "dropped"}));
}

TEST(MixtureTask, TheBalanceReachesTheGates) {
  const Batch batch = ragged_batch();
  const Update with = update_of(*mixture_task("tokens_choose", 0.5), {batch}),
               without = update_of(*mixture_task("tokens_choose", 0), {batch});
  EXPECT_GT(difference_of(with, without), 1e-3);
  EXPECT_GT(with.loss, without.loss);
}

TEST(MixtureTask, ExpertsThatChooseMixTheSamplesOfABatch) {
  const auto task = mixture_task("experts_choose", 0);
  const Batch batch = ragged_batch();
  const Update whole = update_of(*task, {batch});
  const Update cut =
      update_of(*task, {part_of(batch, 0, 2, kMixtureContext), part_of(batch, 2, 2, kMixtureContext)});
  EXPECT_GT(difference_of(whole, cut), 1e-2);
}

TEST(MixtureTask, ATokenCannotGoToMoreExpertsThanThereAre) {
  const auto error = test::expect_error(ExitCode::kBadRecipe, [] {
    make_model({"transformer", {{"experts", int64_t{2}}, {"experts_per_token", int64_t{3}}}},
               {{kMixtureContext}, kMixtureVocabulary, kMixtureVocabulary});
  });
  EXPECT_TRUE(test::holds(error.what(), "a token cannot go to 3 of 2 experts"));
}

// As linear layers do, each expert's two by what rounding.h makes of their weights.
TEST(Experts, OfFewerBitsComputeAsTheRoundedOnesDo) {
  const test::OneThread one_thread;
  const torch::NoGradGuard no_gradients;
  constexpr int64_t kExpertsWidth = 32;
  const auto make = [&] {
    torch::manual_seed(7);
    Experts experts(kExpertsWidth, kMixtureContext, ExpertOptions{.experts = 3, .per_token = 2}, 0.3);
    for (torch::Tensor& each : experts->parameters()) each.add_(torch::randn_like(each), 0.1);
    return experts;
  };
  torch::manual_seed(8);
  const torch::Tensor x = torch::randn({2, kMixtureContext, kExpertsWidth});
  const auto of_rounded = [&](const std::function<torch::Tensor(const torch::Tensor& rows)>& round) {
    Experts experts = make();
    for (const char* const name : {"expand", "contract"}) {
      torch::Tensor weights = expert_parameter(experts, name);
      weights.copy_(round(weights.flatten(0, 1)).view(weights.sizes()));
    }
    return experts->forward(x);
  };
  const auto off_by = [](const torch::Tensor& y, const torch::Tensor& exact) {
    return ((y - exact).norm() / exact.norm()).item<double>();
  };
  const torch::Tensor whole = make()->forward(x),
                      of_eight =
                          of_rounded([](const torch::Tensor&rows) { return from_int8(to_int8(rows)); }),
                      of_four =
                          of_rounded([](const torch::Tensor&rows) { return from_int4(to_int4(rows, 32)); });
  Experts eight = make(), four = make(), quantized = make();
  EXPECT_EQ(eight->keep_int8(), 6);
  EXPECT_EQ(four->keep_int4(32), 6);
  EXPECT_EQ(quantized->quantize(), 6);
  EXPECT_LT(off_by(eight->forward(x), of_eight), 1e-5);
  EXPECT_LT(off_by(four->forward(x), of_four), 1e-5);
  EXPECT_GT(off_by(of_four, whole), 1e-3) << "rounding must show";
  EXPECT_LT(off_by(quantized->forward(x), whole), 0.05);
  EXPECT_GT(off_by(quantized->forward(x), of_eight), 1e-5) << "its inputs are rounded, too";
  EXPECT_EQ(expert_parameter(four, "expand").numel(), 0) << "their memory is free";
}

// Of 10 outputs LibTorch has no kernel of four bits; weights [40, 10] have none for groups of 32, either.
TEST(Experts, AShapeWithoutAKernelOfFourBitsStaysAsItIs) {
  const torch::NoGradGuard no_gradients;
  torch::manual_seed(7);
  Experts experts(10, kMixtureContext, ExpertOptions{.experts = 2, .per_token = 1}, 0.3);
  const torch::Tensor x = torch::randn({2, kMixtureContext, 10}), exact = experts->forward(x);
  EXPECT_EQ(experts->keep_int4(32), 0);
  EXPECT_TRUE(experts->forward(x).equal(exact));
}

}  // namespace
}  // namespace autotrain
