#include "model/graph_kept.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <utility>

#include "base/text.h"
#include "model/graph_reader.h"
#include "model/graph_recompute.h"
#include "support/graphs.h"

namespace autotrain {
namespace {

using graph::Given;
using graph::Graph;
using test::Differentiated;
using test::differentiated;
using test::kAnyShare;
using test::node;
using test::value;
using Json = nlohmann::ordered_json;

const Given kOneWeight{.parameters = 1, .training = true};  // value 0; then x, and the gradient of the output
const Json kDefault = {{"default", true}};

Graph graph_of(Json nodes, int64_t prediction, int64_t gradient) {
  return graph::read_graph(
      {{"nodes", std::move(nodes)}, {"prediction", prediction}, {"gradients", {gradient}}}, kOneWeight, 1);
}

// max_pool(w · x), forward and backward.
Graph pooled() {
  const Json two = {2, 2}, zero = {0, 0}, one = {1, 1};
  return graph_of({node("aten::mul", "Tensor", {value(1), value(0)}, {3}),
                   node("aten::max_pool2d_with_indices", "", {value(3), two, two, zero, one, false}, {4, 5}),
                   node("aten::max_pool2d_with_indices_backward", "",
                        {value(2), value(3), two, two, zero, one, false, value(5)}, {6}),
                   node("aten::mul", "Tensor", {value(6), value(1)}, {7}),
                   node("aten::sum", "", {value(7), kDefault}, {8})},
                  4, 8);
}

// w · x with some of it dropped, as PyTorch does it on the CPU.
Graph dropped() {
  return graph_of(
      {node("aten::mul", "Tensor", {value(1), value(0)}, {3}),
       node("aten::empty_like", "", {value(3), kDefault, kDefault, kDefault, kDefault, kDefault}, {4}),
       node("aten::bernoulli_", "float", {value(4), 0.7}, {5}),
       node("aten::div_", "Scalar", {value(5), 0.7}, {6}),
       node("aten::mul", "Tensor", {value(3), value(6)}, {7}),
       node("aten::mul", "Tensor", {value(2), value(6)}, {8}),
       node("aten::mul", "Tensor", {value(8), value(1)}, {9}),
       node("aten::sum", "", {value(9), kDefault}, {10})},
      7, 10);
}

// The positive of w · x. The mask is value 4; what the operators of `forward` do with it are the values after
// it.
Graph masked(const Json& forward, int64_t taken_again) {
  Json nodes = {node("aten::mul", "Tensor", {value(1), value(0)}, {3}),
                node("aten::le", "Scalar", {value(3), 0}, {4})};
  for (const Json& each : forward) nodes.push_back(each);
  const int64_t next = 5 + std::ssize(forward);
  nodes.push_back(node("aten::masked_fill", "Scalar", {value(3), value(4), 0}, {next}));
  nodes.push_back(node("aten::masked_fill", "Scalar", {value(2), value(taken_again), 0}, {next + 1}));
  nodes.push_back(node("aten::mul", "Tensor", {value(next + 1), value(1)}, {next + 2}));
  nodes.push_back(node("aten::sum", "", {value(next + 2), kDefault}, {next + 3}));
  return graph_of(nodes, next, next + 3);
}

// Runs a graph both ways, and sees that no bit differs.
struct BothWays {
  BothWays(const Graph& graph, const torch::Tensor& weight, const torch::Tensor& x,
           const torch::Tensor& cotangent)
      : smaller(differentiated(graph, {weight, x}, cotangent)),
        as_made(differentiated(graph, {weight, x}, cotangent, {.as_made = true})) {
    EXPECT_TRUE(smaller.output.equal(as_made.output));
    for (size_t i = 0; i < smaller.gradients.size(); ++i)
      EXPECT_TRUE(smaller.gradients[i].equal(as_made.gradients[i]));
  }
  int64_t spared() const { return as_made.kept_bytes - smaller.kept_bytes; }

  Differentiated smaller, as_made;
};

TEST(KeptValues, IndicesOfPoolingAreKeptInTheLeastTypeForTheirPlane) {
  struct Case {
    int64_t samples, height, width, bytes_of_index;
  };
  for (const Case& c : {Case{128, 16, 16, 1}, Case{128, 16, 32, 2}, Case{2, 256, 256, 4}}) {
    const torch::Tensor weight = torch::ones({1});
    for (const auto format : {torch::MemoryFormat::Contiguous, torch::MemoryFormat::ChannelsLast}) {
      const torch::Tensor x = torch::randn({c.samples, 4, c.height, c.width}).contiguous(format);
      const torch::Tensor cotangent =
          torch::randn({c.samples, 4, c.height / 2, c.width / 2}).contiguous(format);
      const BothWays ways(pooled(), weight, x, cotangent);
      EXPECT_EQ(ways.spared(), (8 - c.bytes_of_index) * cotangent.numel()) << c.height << " × " << c.width;
    }
  }
}

TEST(KeptValues, WhatDropoutMultipliesByIsKeptAsBits) {
  for (const auto type : {torch::kFloat32, torch::kFloat64, torch::kBFloat16, torch::kFloat16}) {
    const torch::Tensor x = torch::randn({4096, 32}).to(type);
    const BothWays ways(dropped(), torch::full({1}, 2.0, type), x, torch::randn({4096, 32}).to(type));
    EXPECT_EQ(ways.spared(), static_cast<int64_t>(x.nbytes()) - x.numel() / 8) << type;
    EXPECT_EQ(ways.smaller.kept_bytes, x.numel() / 8);
  }
}

TEST(KeptValues, TruthsAreKeptAsBits) {
  const torch::Tensor x = torch::randn({4096, 32}), weight = torch::ones({1});
  const BothWays ways(masked(Json::array(), 4), weight, x, torch::randn({4096, 32}));
  EXPECT_EQ(ways.spared(), x.numel() - x.numel() / 8);
}

TEST(KeptValues, AMaskIsKeptAsItIsAfterTheLastWrite) {
  const Json inverted = Json::array({node("aten::logical_not_", "", {value(4)}, {5})});
  const torch::Tensor x = torch::randn({4096, 32}), weight = torch::ones({1});
  const BothWays ways(masked(inverted, 4), weight, x, torch::randn({4096, 32}));
  EXPECT_EQ(ways.spared(), x.numel() - x.numel() / 8);
}

TEST(KeptValues, FewBytesAreNotWorthIt) {
  const torch::Tensor weight = torch::ones({1});
  for (const auto& [rows, spared] : std::map<int64_t, bool>{{2048, true}, {2047, false}}) {
    const torch::Tensor x = torch::randn({rows, 32});
    const BothWays ways(masked(Json::array(), 4), weight, x, torch::randn({rows, 32}));
    EXPECT_EQ(ways.spared() > 0, spared) << rows;
  }
}

// Nothing would be freed: a view holds what it is a view of, and of two values in the same memory the other
// is there.
TEST(KeptValues, WhatSharesItsMemoryStaysAsItWasMade) {
  const torch::Tensor x = torch::randn({4096, 32}), weight = torch::ones({1});
  const Json viewed = Json::array({node("aten::view", "", {value(4), {-1, 32}}, {5})});
  EXPECT_EQ(BothWays(masked(viewed, 5), weight, x, torch::randn({4096, 32})).spared(), 0) << "a view is";

  Json nodes = {node("aten::mul", "Tensor", {value(1), value(0)}, {3}),
                node("aten::le", "Scalar", {value(3), 0}, {4}),
                node("aten::alias", "", {value(4)}, {5}),
                node("aten::masked_fill", "Scalar", {value(3), value(4), 0}, {6}),
                node("aten::masked_fill", "Scalar", {value(2), value(5), 0}, {7}),
                node("aten::masked_fill", "Scalar", {value(7), value(4), 0}, {8}),
                node("aten::mul", "Tensor", {value(8), value(1)}, {9}),
                node("aten::sum", "", {value(9), kDefault}, {10})};
  EXPECT_EQ(BothWays(graph_of(nodes, 6, 10), weight, x, torch::randn({4096, 32})).spared(), 0) << "both are";
}

// What is predicted beside a loss is in the hands of others, and what it holds stays.
TEST(KeptValues, WhatIsReturnedStaysAsItWasMade) {
  Json nodes = {node("aten::mul", "Tensor", {value(1), value(0)}, {3}),
                node("aten::le", "Scalar", {value(3), 0}, {4}),
                node("aten::masked_fill", "Scalar", {value(3), value(4), 0}, {5}),
                node("aten::sum", "", {value(5), kDefault}, {6}),
                node("aten::expand_as", "", {value(2), value(4)}, {7}),
                node("aten::masked_fill", "Scalar", {value(7), value(4), 0}, {8}),
                node("aten::mul", "Tensor", {value(8), value(1)}, {9}),
                node("aten::sum", "", {value(9), kDefault}, {10})};
  const Json json = {{"nodes", nodes}, {"loss", 6}, {"prediction", 4}, {"gradients", {10}}};
  const Graph graph =
      graph::read_graph(json, {.parameters = 1, .inputs = 1, .loss = true, .training = true}, 1);
  const torch::Tensor x = torch::randn({4096, 32}), weight = torch::ones({1});
  graph::Pass pass(test::shared(graph), {weight, x});
  pass.forward();
  EXPECT_TRUE(pass.prediction_beside().equal(x <= 0));
  EXPECT_TRUE(pass.backward(torch::ones({}))[0].equal((x * (x > 0)).sum()));
}

// The most of whole numbers is none of their places.
TEST(KeptValues, TheLargestOfWholeNumbersIsNoIndex) {
  Json nodes = {node("aten::_to_copy", "",
                     {value(1), {{"dtype", "int64"}}, kDefault, kDefault, kDefault, kDefault, kDefault}, {3}),
                node("aten::max", "other", {value(3), value(3)}, {4}),
                node("aten::mul", "Tensor", {value(1), value(0)}, {5}),
                node("aten::mul", "Tensor", {value(2), value(4)}, {6}),
                node("aten::sum", "", {value(6), kDefault}, {7})};
  const torch::Tensor x = torch::randn({4096, 32}) * 1e9, weight = torch::ones({1});
  EXPECT_EQ(BothWays(graph_of(nodes, 5, 7), weight, x, torch::randn({4096, 32})).spared(), 0);
}

// Places that an offset is added to, through a view as well, lie beyond where they were chosen from.
TEST(KeptValues, AnIndexThatIsChangedStaysAsItWasMade) {
  for (const int64_t changed : {4, 5}) {
    Json nodes = {node("aten::mul", "Tensor", {value(1), value(0)}, {3}),
                  node("aten::argmax", "", {value(3), 1, true}, {4}),
                  node("aten::view", "", {value(4), {-1}}, {5}),
                  node("aten::add_", "Scalar", {value(changed), 1000, 1}, {6}),
                  node("aten::mul", "Tensor", {value(2), value(4)}, {7}),
                  node("aten::mul", "Tensor", {value(7), value(1)}, {8}),
                  node("aten::sum", "", {value(8), kDefault}, {9})};
    const torch::Tensor x = torch::randn({16384, 4}), weight = torch::ones({1});
    EXPECT_EQ(BothWays(graph_of(nodes, 3, 9), weight, x, torch::randn({16384, 4})).spared(), 0) << changed;
  }
}

TEST(KeptValues, WhatAChoiceIsMadeByIsTheBytesThatAreKept) {
  const torch::Tensor x = torch::randn({4096, 32}), cotangent = torch::randn({4096, 32});
  const Graph graph = dropped();
  for (const int64_t rows : {4096, 64}) {
    graph::GraphCosts costs(graph);
    const std::vector<torch::Tensor> given = {torch::ones({1}), x.slice(0, 0, rows).clone()};
    differentiated(graph, given, cotangent.slice(0, 0, rows).clone(), {.costs = &costs});
    EXPECT_EQ(graph::recompute(graph, costs, 0, kAnyShare).bytes_before, given[1].numel() / 8) << rows;
  }
}

// Layers of random kinds over [n, 32], which keep masks, indices and floats in many ways.
class RandomLayers {
 public:
  explicit RandomLayers(uint64_t seed) : random_(seed) {
    int64_t x = add("aten::mul", "Tensor", {value(1), value(0)});
    for (int layer = 0; layer < 6; ++layer) x = layer_of(random_() % 7, x);
    output_ = x;
    int64_t gradient = 2;
    for (size_t i = backward_.size(); i-- > 0;) gradient = backward_[i](gradient);
    gradient_ = add("aten::mul", "Tensor", {value(gradient), value(1)});
  }

  Graph graph() const { return graph_of(nodes_, output_, gradient_); }

 private:
  int64_t add(const std::string& op, const std::string& overload, Json arguments, int64_t results = 1) {
    Json numbers = Json::array();
    for (int64_t i = 0; i < results; ++i) numbers.push_back(next_ + i);
    nodes_.push_back(node(op, overload, std::move(arguments), numbers));
    return std::exchange(next_, next_ + results);
  }

  int64_t layer_of(uint64_t kind, int64_t x) {
    switch (kind) {
      case 0: return drop(x);
      case 1: return mask(x, add("aten::le", "Scalar", {value(x), 0}));
      case 2: return mask_by_view(x);
      case 3: return sort(x);
      case 4: return largest_so_far(x);
      case 5: return mask_inverted(x);
      default: return tanh(x);
    }
  }

  int64_t drop(int64_t x) {
    int64_t noise = add("aten::empty_like", "", {value(x), kDefault, kDefault, kDefault, kDefault, kDefault});
    noise = add("aten::bernoulli_", "float", {value(noise), 0.5});
    noise = add("aten::div_", "Scalar", {value(noise), 0.5});
    if (random_() % 3 == 0) add("aten::mul_", "Tensor", {value(noise), value(x)});
    const auto multiply = [this, noise](int64_t by) {
      return add("aten::mul", "Tensor", {value(by), value(noise)});
    };
    backward_.emplace_back(multiply);
    return multiply(x);
  }

  int64_t mask(int64_t x, int64_t where) {
    if (last_mask_ && random_() % 2 == 0)
      where = add("aten::logical_or", "", {value(where), value(*last_mask_)});
    last_mask_ = where;
    const auto fill = [this, where](int64_t of) {
      return add("aten::masked_fill", "Scalar", {value(of), value(where), 0.5});
    };
    backward_.emplace_back(fill);
    return fill(x);
  }

  int64_t mask_inverted(int64_t x) {
    const int64_t where = add("aten::gt", "Scalar", {value(x), 0});
    add("aten::logical_not_", "", {value(where)});
    return mask(x, where);
  }

  // The backward half takes a view of the mask, the mask, or both, of which it makes views.
  int64_t mask_by_view(int64_t x) {
    const int64_t where = add("aten::le", "Scalar", {value(x), 0}),
                  turned = add("aten::t", "", {value(where)});
    const bool take_view = random_() % 2 == 0, take_both = random_() % 2 == 0;
    backward_.emplace_back([=, this](int64_t gradient) {
      const int64_t again = take_view ? add("aten::t", "", {value(turned)}) : where;
      gradient = add("aten::masked_fill", "Scalar", {value(gradient), value(again), 0});
      return take_both ? add("aten::masked_fill", "Scalar", {value(gradient), value(where), 1}) : gradient;
    });
    const int64_t back = add("aten::t", "", {value(turned)});
    return add("aten::masked_fill", "Scalar", {value(x), value(back), 0});
  }

  int64_t sort(int64_t x) {
    const int64_t sorted = add("aten::sort", "", {value(x), 1, false}, 2);
    scatter_back("aten::scatter", "src", sorted + 1);
    return sorted;
  }

  int64_t largest_so_far(int64_t x) {
    const int64_t largest = add("aten::cummax", "", {value(x), 0}, 2);
    scatter_back("aten::scatter_add", "", largest + 1, 0);
    return largest;
  }

  void scatter_back(const std::string& op, const std::string& overload, int64_t indices, int64_t axis = 1) {
    backward_.emplace_back([=, this](int64_t gradient) {
      const int64_t zeros =
          add("aten::zeros_like", "", {value(gradient), kDefault, kDefault, kDefault, kDefault, kDefault});
      return add(op, overload, {value(zeros), axis, value(indices), value(gradient)});
    });
  }

  int64_t tanh(int64_t x) {
    const int64_t made = add("aten::tanh", "", {value(x)});
    backward_.emplace_back([=, this](int64_t gradient) {
      return add("aten::tanh_backward", "", {value(gradient), value(made)});
    });
    return made;
  }

  std::mt19937_64 random_;
  Json nodes_ = Json::array();
  int64_t next_ = 3;
  std::vector<std::function<int64_t(int64_t)>> backward_ = {};
  std::optional<int64_t> last_mask_ = {};
  int64_t output_ = 0, gradient_ = 0;
};

TEST(KeptValues, NoBitOfRandomGraphsDiffersHoweverMuchIsComputedAgain) {
  int spared = 0;
  for (uint64_t seed = 0; seed < 24; ++seed) {
    torch::manual_seed(seed);
    const auto type = seed % 3 == 0 ? torch::kBFloat16 : seed % 3 == 1 ? torch::kFloat32 : torch::kFloat64;
    const Graph graph = RandomLayers(seed).graph();
    for (const int64_t rows : {3, 2051}) {
      const auto drawn = [&] { return torch::randn({rows, 32}).to(type); };
      const torch::Tensor weight = drawn(), x = drawn(), cotangent = drawn();
      graph::GraphCosts costs(graph);
      differentiated(graph, {weight, x}, cotangent, {.costs = &costs});
      const Differentiated expected = differentiated(graph, {weight, x}, cotangent, {.as_made = true});
      for (const double work : {0.0, 8.0, 1e9}) {
        const Graph variant = graph::recompute(graph, costs, work, kAnyShare).graph;
        SCOPED_TRACE(cat("seed ", seed, ", ", rows, " rows, work ", work));
        const BothWays ways(variant, weight, x, cotangent);
        EXPECT_TRUE(ways.smaller.output.equal(expected.output));
        EXPECT_TRUE(ways.smaller.gradients[0].equal(expected.gradients[0]));
        EXPECT_GE(ways.spared(), 0);
        spared += ways.spared() > 0;
      }
    }
  }
  EXPECT_GE(spared, 24) << "of 144 variants";
}

}  // namespace
}  // namespace autotrain
