#include "model/decoder.h"

#include "base/random.h"
#include "base/text.h"
#include "model/attention.h"
#include "model/few_rows.h"
#include "model/generation.h"
#include "model/models.h"
#include "support/one_thread.h"
#include "support/support.h"

namespace autotrain {
namespace {

constexpr int64_t kLetters = 31, kLongest = 24, kQueryHeads = 4;

struct Variant {
  std::string positions;
  int64_t kv_heads;
  bool tied = true;
  int64_t experts = 0;
};

std::vector<Variant> variants() {
  return {{"learned", 4},       {"learned", 2},        {"rotary", 4},         {"rotary", 2},
          {"rotary", 1, false}, {"learned", 4, false}, {"rotary", 2, true, 4}};
}

std::string name_of(const Variant& v) {
  return cat(v.positions, ", ", v.kv_heads, " key-value heads", v.tied ? "" : ", untied",
             v.experts > 0 ? ", experts" : "");
}

// Weights far larger than first ones, so that tokens differ clearly.
std::shared_ptr<Network> random_model(const Variant& v, uint64_t seed) {
  torch::manual_seed(seed);
  auto model = make_model({"transformer",
                           {{"layers", int64_t{2}},
                            {"width", int64_t{32}},
                            {"heads", kQueryHeads},
                            {"kv_heads", v.kv_heads},
                            {"positions", v.positions},
                            {"tied", v.tied},
                            {"experts", v.experts},
                            {"capacity", 0.5},  // of training alone
                            {"dropout", 0.1}}},
                          {{kLongest}, kLetters, kLetters});
  const torch::NoGradGuard no_gradients;
  for (torch::Tensor& each : model->parameters()) each.add_(torch::randn_like(each), 0.15);
  model->eval();
  return model;
}

Decoder& decoder_of(Network& model) {
  return dynamic_cast<Decoder&>(model);
}

KeyValueCache cache_of(Network& model, int64_t sequences, int64_t context = kLongest) {
  CacheShape shape = decoder_of(model).facts().cache;
  shape.sequences = sequences;
  shape.context = context;
  return {shape, torch::kFloat32};
}

void expect_close(const torch::Tensor& a, const torch::Tensor& b, const std::string& of) {
  ASSERT_EQ(a.sizes(), b.sizes()) << of;
  EXPECT_LT((a - b).abs().max().item<double>(), 2e-5 * b.abs().max().item<double>()) << of;
}

TEST(Decoder, PrefillAndStepsGiveTheLogitsOfAWholePass) {
  const test::OneThread one_thread;
  const torch::NoGradGuard no_gradients;
  for (const Variant& v : variants()) {
    const auto model = random_model(v, 3);
    const torch::Tensor tokens = torch::randint(kLetters, {3, kLongest});
    const torch::Tensor whole = model->forward(tokens);
    KeyValueCache cache = cache_of(*model, 3);
    torch::Tensor logits = decoder_of(*model).prefill(tokens.narrow(1, 0, 5), {5, 5, 5}, cache, 0);
    for (int64_t at = 5; at < kLongest; ++at) {
      expect_close(logits, whole.select(1, at - 1), cat(name_of(v), ", after ", at, " tokens"));
      logits = decoder_of(*model).step(tokens.select(1, at), {at, at, at}, cache);
    }
    expect_close(logits, whole.select(1, kLongest - 1), name_of(v));
  }
}

TEST(Decoder, SequencesOfUnequalLengthDoNotSeeEachOtherNorWhatFillsThemUp) {
  const test::OneThread one_thread;
  const torch::NoGradGuard no_gradients;
  for (const Variant& v : variants()) {
    const auto model = random_model(v, 4);
    const torch::Tensor tokens = torch::randint(kLetters, {3, kLongest});
    const std::vector<int64_t> lengths = {9, 2, 6};
    KeyValueCache cache = cache_of(*model, 3);
    torch::Tensor logits = decoder_of(*model).prefill(tokens.narrow(1, 0, 9), lengths, cache, 0);
    for (int64_t more = 0; more < 8; ++more) {
      std::vector<int64_t> positions, next;
      for (int64_t i = 0; i < 3; ++i) {
        const int64_t length = lengths[static_cast<size_t>(i)] + more;
        const torch::Tensor alone = model->forward(tokens[i].narrow(0, 0, length).unsqueeze(0));
        expect_close(logits[i], alone[0][length - 1], cat(name_of(v), ", sequence ", i, " at ", length));
        positions.push_back(length);
        next.push_back(tokens[i][length].item<int64_t>());
      }
      logits = decoder_of(*model).step(torch::tensor(next), positions, cache);
    }
  }
}

TEST(Decoder, TheCacheTakesWhatItsFormulaSays) {
  for (const Variant& v : variants()) {
    const auto model = random_model(v, 5);
    const CacheShape shape = decoder_of(*model).facts().cache;
    EXPECT_EQ(shape.bytes_per_token(4), 2 * 2 * v.kv_heads * 8 * 4) << name_of(v);
    EXPECT_EQ(cache_of(*model, 5, 13).bytes(), shape.bytes_per_token(4) * 5 * 13) << name_of(v);
  }
}

// All weights but the tables that are only looked up.
TEST(Decoder, AStepReadsTheWeightsThatItMultipliesWith) {
  for (const Variant& v : variants()) {
    if (v.experts > 0) continue;
    const auto model = random_model(v, 6);
    int64_t bytes = 0, products = 0;
    for (const auto& each : model->named_parameters()) {
      const bool looked_up = each.key() == "position.weight" || (each.key() == "token.weight" && !v.tied);
      if (!looked_up) bytes += static_cast<int64_t>(each.value().nbytes());
      if (!looked_up && each.value().dim() == 2) products += each.value().numel();
    }
    const DecoderFacts facts = decoder_of(*model).facts();
    EXPECT_EQ(facts.weight_bytes, bytes) << name_of(v);
    EXPECT_EQ(facts.step_products, products) << name_of(v);
  }
}

TEST(Decoder, FewRowsAsColumnsGiveTheSameProducts) {
  const torch::NoGradGuard no_gradients;
  const torch::Tensor weight = torch::randn({7, 5}), bias = torch::randn({7});
  for (const int64_t rows : {1, 2, 16, 17}) {
    const torch::Tensor x = torch::randn({rows, 1, 5});
    EXPECT_FALSE(takes_columns(x, weight));
    const FewRowsScope few_rows;
    EXPECT_EQ(takes_columns(x, weight), rows <= 16);
    expect_close(linear_by_columns(x, weight, bias), at::linear(x, weight, bias), cat(rows, " rows"));
    expect_close(linear_by_columns(x, weight, {}), at::linear(x, weight), cat(rows, " rows, no bias"));
  }
}

// Against float32 of the same 16-bit numbers: one sequence at a time, several, and all at once.
TEST(Decoder, AttentionToACacheOf16BitsIsThatOfFloat32) {
  const torch::NoGradGuard no_gradients;
  for (const torch::ScalarType type : {torch::kBFloat16, torch::kFloat16}) {
    for (const int64_t tokens : {1, 70, 20000, 60000}) {
      const auto drawn = [&](int64_t heads, int64_t length) {
        return torch::randn({5, heads, length, 16}).to(type);
      };
      const torch::Tensor queries = drawn(4, 1), keys = drawn(2, tokens), values = drawn(2, tokens);
      for (const torch::Tensor& mask :
           {torch::Tensor(),
            torch::rand({5, 1, 1, tokens}).gt(0.5).index_fill(3, torch::tensor({0}), true)}) {
        const auto wide = [](const torch::Tensor& x) { return x.to(torch::kFloat32); };
        const torch::Tensor expected = attention_to_cache(wide(queries), wide(keys), wide(values), mask);
        const torch::Tensor found = attention_to_cache(queries, keys, values, mask);
        EXPECT_EQ(found.scalar_type(), type);
        EXPECT_EQ(found.sizes(), expected.sizes());
        EXPECT_LE((wide(found) - expected).abs().max().item<double>(),
                  expected.abs().max().item<double>() * (type == torch::kBFloat16 ? 0.005 : 0.001))
            << tokens << " tokens";
      }
    }
  }
}

TEST(Decoder, RotaryPositionsTellDistancesAndNotPlaces) {
  const torch::Tensor q = torch::randn({1, 1, 1, 16}), k = torch::randn({1, 1, 1, 16});
  const auto product = [&](int64_t i, int64_t j) {
    const auto at = [](int64_t place) { return rotation_at(torch::tensor({place}), 16); };
    return (rotated(q, at(i)) * rotated(k, at(j))).sum().item<double>();
  };
  EXPECT_NEAR(product(7, 3), product(104, 100), 1e-4);
  EXPECT_GT(std::abs(product(7, 3) - product(7, 5)), 1e-3);
}

// ------------------------------------------------------------------ generation

// Without a cache: the whole sequence anew for each token.
std::vector<int64_t> plainly(Network& model, const GenerationRequest& request, const SamplingRule& rule) {
  const torch::NoGradGuard no_gradients;
  std::vector<int64_t> all = request.prompt, made;
  while (std::ssize(made) < request.tokens) {
    const torch::Tensor logits = model.forward(torch::tensor(all).unsqueeze(0))[0][-1].contiguous();
    Random random(derive_key(request.key, made.size()));
    made.push_back(draw_token({logits.const_data_ptr<float>(), static_cast<size_t>(kLetters)}, rule, random));
    all.push_back(made.back());
    if (request.stop && made.back() == *request.stop) break;
  }
  return made;
}

std::vector<GenerationRequest> random_requests(int64_t count, Random& random) {
  std::vector<GenerationRequest> requests;
  for (int64_t i = 0; i < count; ++i) {
    GenerationRequest& request = requests.emplace_back();
    const int64_t length = 1 + random.below(kLongest / 2);
    for (int64_t j = 0; j < length; ++j) request.prompt.push_back(random.below(kLetters));
    request.tokens = 1 + random.below(kLongest - length);
    request.key = random.next();
    if (random.below(3) == 0) request.stop = random.below(kLetters);
  }
  return requests;
}

TEST(Generation, MakesTheTokensThatAModelWithoutACacheMakes) {
  const test::OneThread one_thread;
  const std::vector<SamplingRule> rules = {
      {}, {.temperature = 1}, {.temperature = 0.8, .top_k = 5, .top_p = 0.9}};
  Random random(7);
  for (size_t i = 0; i < 2 * variants().size(); ++i) {
    const Variant v = variants()[i % variants().size()];
    const auto model = random_model(v, i);
    const auto requests = random_requests(6, random);
    const SamplingRule& rule = rules[i % rules.size()];
    std::vector<std::vector<int64_t>> expected;
    for (const GenerationRequest& request : requests) expected.push_back(plainly(*model, request, rule));
    for (const Admission admission : {Admission::kContinuous, Admission::kStatic}) {
      KeyValueCache cache = cache_of(*model, 1 + random.below(5));
      Generation generation(decoder_of(*model), cache, rule, admission, torch::kCPU);
      EXPECT_EQ(generation.run(requests), expected) << name_of(v);
    }
  }
}

TEST(Generation, ContinuousBatchesTakeFewerStepsThanStaticOnes) {
  const test::OneThread one_thread;
  const auto model = random_model({"rotary", 2}, 8);
  std::vector<GenerationRequest> requests;
  for (int64_t i = 0; i < 12; ++i) requests.push_back({.prompt = {1}, .tokens = i % 4 == 0 ? 20 : 3});
  const auto steps = [&](Admission admission) {
    KeyValueCache cache = cache_of(*model, 4);
    Generation generation(decoder_of(*model), cache, {}, admission, torch::kCPU);
    generation.run(requests);
    EXPECT_EQ(generation.count().tokens, 3 * 20 + 9 * 3);
    return generation.count().steps;
  };
  EXPECT_EQ(steps(Admission::kStatic), 3 * 19);  // the first token is the prefill's
  EXPECT_LT(steps(Admission::kContinuous), 2 * 19 + 8);
}

TEST(Generation, HeadsThatDoNotFitAreRefused) {
  const auto error = test::expect_error(ExitCode::kBadRecipe, [] { random_model({"learned", 3}, 1); });
  EXPECT_TRUE(test::holds(error.what(), "4 heads cannot share 3 key-value heads"));
}

}  // namespace
}  // namespace autotrain
