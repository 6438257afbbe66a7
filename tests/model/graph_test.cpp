#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "device/cpu_meter.h"
#include "model/graph_pass.h"
#include "model/graph_reader.h"
#include "model/graph_recompute.h"
#include "model/graph_uses.h"
#include "support/graphs.h"
#include "support/support.h"

namespace autotrain {
namespace {

using graph::Given;
using graph::Graph;
using Json = nlohmann::ordered_json;
using test::Differentiated;
using test::differentiated;
using test::kAnyShare;
using test::node;
using test::shared;
using test::value;

// What the exporter writes for tanh(x · Wᵀ + b) of a batch of any size, forward and backward.
const Given kLinear{.parameters = 2, .training = true};  // W [3, 4], b [3]; then x [n, 4], and the gradient

Json linear_json() {
  const Json none = {{"default", true}};
  return {{"nodes",
           {
               node("aten::t", "", {value(0)}, {4}),
               node("aten::addmm", "", {value(1), value(2), value(4), none, none}, {5}),
               node("aten::sym_size", "int", {value(2), 0}, {6}),
               node("mul", "", {value(6), 3}, {7}),
               node("aten::view", "", {value(5), Json::array({value(7)})}, {8}),
               node("aten::tanh", "", {value(8)}, {9}),
               node("aten::view", "", {value(9), Json::array({value(6), 3})}, {10}),
               node("aten::tanh_backward", "", {value(3), value(10)}, {11}),
               node("aten::t", "", {value(11)}, {12}),
               node("aten::mm", "", {value(12), value(2)}, {13}),
               node("aten::sum", "dim_IntList", {value(11), Json::array({0}), false}, {14}),
           }},
          {"prediction", 10},
          {"gradients", {13, 14}}};
}

std::shared_ptr<const Graph> linear() {
  return shared(graph::read_graph(linear_json(), kLinear, 2));
}

struct Tensors {
  torch::Tensor weight = torch::randn({3, 4}), bias = torch::randn({3}), inputs;
  explicit Tensors(int64_t n) : inputs(torch::randn({n, 4})) {}
  std::vector<torch::Tensor> list() const { return {weight, bias, inputs}; }
};

TEST(Graph, APassGivesWhatAutogradGives) {
  const auto graph = linear();
  for (const int64_t n : {1, 2, 7}) {
    torch::manual_seed(n);
    Tensors t(n);
    const torch::Tensor cotangent = torch::randn({n, 3});
    graph::Pass pass(graph, t.list());
    const torch::Tensor prediction = pass.forward();
    const std::vector<torch::Tensor> gradients = pass.backward(cotangent);

    t.weight.set_requires_grad(true), t.bias.set_requires_grad(true);
    const torch::Tensor expected = torch::addmm(t.bias, t.inputs, t.weight.t()).tanh();
    expected.backward(cotangent);
    EXPECT_TRUE(prediction.equal(expected)) << n;
    ASSERT_EQ(gradients.size(), 2U);
    EXPECT_TRUE(gradients[0].equal(t.weight.grad())) << n;
    EXPECT_TRUE(gradients[1].equal(t.bias.grad())) << n;
  }
}

// Two layers: the second one's gradients are there before the first one's are computed.
TEST(Graph, AGradientIsHandedOnBeforeTheNextIsComputed) {
  const Given given{.parameters = 3, .training = true};  // V [3, 2], W [4, 3], b [2]; x [n, 4], the gradient
  const Json none = {{"default", true}};
  const Json json = {{"nodes",
                      {
                          node("aten::mm", "", {value(3), value(1)}, {5}),
                          node("aten::mm", "", {value(5), value(0)}, {6}),
                          node("aten::add", "Tensor", {value(6), value(2), none}, {7}),
                          node("aten::t", "", {value(5)}, {8}),
                          node("aten::mm", "", {value(8), value(4)}, {9}),
                          node("aten::sum", "dim_IntList", {value(4), Json::array({0}), false}, {10}),
                          node("aten::t", "", {value(0)}, {11}),
                          node("aten::mm", "", {value(4), value(11)}, {12}),
                          node("aten::t", "", {value(3)}, {13}),
                          node("aten::mm", "", {value(13), value(12)}, {14}),
                      }},
                     {"prediction", 7},
                     {"gradients", {9, 14, 10}}};
  const auto graph = shared(graph::read_graph(json, given, 3));
  ASSERT_EQ(graph->ready.size(), 3U);
  EXPECT_EQ(graph->ready[0].number, 0U);
  EXPECT_EQ(graph->ready[1].number, 2U);
  EXPECT_EQ(graph->ready[2].number, 1U);

  const int64_t n = 1 << 16;
  const torch::Tensor v = torch::randn({3, 2}), w = torch::randn({4, 3}), b = torch::randn({2}),
                      x = torch::randn({n, 4}), cotangent = torch::randn({n, 2});
  graph::Pass all(graph, {v, w, b, x});
  all.forward();
  const std::vector<torch::Tensor> expected = all.backward(cotangent);
  CpuMeter meter;
  graph::Pass pass(graph, {v, w, b, x});
  pass.forward();
  pass.begin_backward(cotangent);
  const int64_t kept = meter.allocated_bytes();
  for (const graph::ReadyGradient& ready : graph->ready) {
    const torch::Tensor gradient = pass.next_gradient();
    EXPECT_TRUE(gradient.equal(expected[ready.number])) << ready.number;
    EXPECT_EQ(gradient.use_count(), 1U) << "the pass holds it no more";
    const bool is_first = ready.number == 0;
    EXPECT_TRUE(!is_first || meter.allocated_bytes() < kept) << "[n, 3] of the first layer is not made";
  }
}

// Their memory is written to after they were made.
TEST(Graph, AGradientIsReadyWhenNothingTouchesItsMemory) {
  const Given given{.parameters = 2, .training = true};  // a and b [3]; then x [3], and the gradient
  const Json none = {{"default", true}};
  const Json json = {{"nodes",
                      {
                          node("aten::add", "Tensor", {value(0), value(1), none}, {4}),
                          node("aten::mul", "Tensor", {value(4), value(2)}, {5}),
                          node("aten::mul", "Tensor", {value(3), value(2)}, {6}),
                          node("aten::view", "", {value(6), Json::array({3})}, {7}),
                          node("aten::mul_", "Tensor", {value(7), value(2)}, {8}),
                      }},
                     {"prediction", 5},
                     {"gradients", {6, 6}}};
  const auto graph = shared(graph::read_graph(json, given, 2));
  EXPECT_EQ(graph->ready[0].end, 5U);
  const torch::Tensor x = torch::randn({3}), ones = torch::ones({3});
  graph::Pass pass(graph, {torch::randn({3}), torch::randn({3}), x});
  pass.forward();
  for (const torch::Tensor& gradient : pass.backward(ones)) EXPECT_TRUE(gradient.equal(x * x));
}

TEST(Graph, WithoutAGradientTheRestIsComputedToTheBitAndNothingIsKeptForIt) {
  const Tensors t(1024);
  const torch::Tensor cotangent = torch::randn({1024, 3});
  graph::Pass whole(linear(), t.list());
  whole.forward();
  const std::vector<torch::Tensor> all = whole.backward(cotangent);
  for (const bool weight : {true, false}) {
    const auto part = shared(graph::without_gradients(*linear(), {weight, !weight}));
    EXPECT_EQ(part->nodes.size(), linear()->nodes.size() - (weight ? 1 : 2));
    EXPECT_EQ(part->nodes[part->backward_begin].name, "aten::tanh_backward");
    graph::Pass pass(part, t.list());
    EXPECT_TRUE(pass.forward().equal(torch::addmm(t.bias, t.inputs, t.weight.t()).tanh()));
    const std::vector<torch::Tensor> gradients = pass.backward(cotangent);
    EXPECT_EQ(gradients[0].defined(), weight);
    EXPECT_EQ(gradients[1].defined(), !weight);
    EXPECT_TRUE(gradients[weight ? 0 : 1].equal(all[weight ? 0 : 1]));
  }
  const auto none = shared(graph::without_gradients(*linear(), {false, false}));
  EXPECT_EQ(none->nodes.size(), 7U) << "the forward pass";
  EXPECT_FALSE(none->keeps_output);
}

TEST(Graph, WhatWritesOrDrawsStaysWithoutItsGradient) {
  const Given given{.parameters = 1, .buffers = 1, .training = true};  // then x, and the gradient
  const Json none = {{"default", true}};
  const Json json = {{"nodes",
                      {node("aten::mul", "Tensor", {value(2), value(0)}, {4}),
                       node("aten::add_", "Tensor", {value(1), value(2), none}, {nullptr}),
                       node("aten::rand_like", "", {value(2), none, none, none, none, none}, {5}),
                       node("aten::mul", "Tensor", {value(3), value(2)}, {6}),
                       node("aten::mul", "Tensor", {value(6), value(5)}, {7})}},
                     {"prediction", 4},
                     {"gradients", {7}}};
  const Graph whole = graph::read_graph(json, given, 1);
  const Graph rest = graph::without_gradients(whole, {false});
  ASSERT_EQ(rest.nodes.size(), 3U);
  EXPECT_EQ(rest.nodes[1].name, "aten::add_.Tensor");
  EXPECT_EQ(rest.nodes[2].name, "aten::rand_like");
}

TEST(Graph, TheForwardPassEndsBeforeTheFirstOperatorThatNeedsTheGradient) {
  const auto graph = linear();
  EXPECT_EQ(graph->backward_begin, 7U);
  EXPECT_EQ(graph->nodes[graph->backward_begin].name, "aten::tanh_backward");
}

TEST(Graph, AutocastAndAutogradAddNothing) {
  const auto graph = linear();
  Tensors t(2);
  t.weight.set_requires_grad(true);
  at::autocast::set_autocast_enabled(torch::kCPU, true);
  graph::Pass pass(graph, t.list());
  const torch::Tensor prediction = pass.forward();
  at::autocast::set_autocast_enabled(torch::kCPU, false);
  EXPECT_EQ(prediction.scalar_type(), torch::kFloat32);
  EXPECT_FALSE(prediction.requires_grad());
}

// Whatever request is the one that is refused: the error says so, and nothing is kept.
TEST(Graph, ARefusedRequestForMemoryLeavesNothingBehind) {
  const auto graph = linear();
  const Tensors t(4096);
  const torch::Tensor cotangent = torch::ones({4096, 3});
  CpuMeter meter;
  int refused = 0;
  for (int64_t allowed = 0;; allowed += 16 << 10) {
    meter.empty_cache();
    meter.set_limit(meter.reserved_bytes() + allowed);
    const int64_t before = meter.allocated_bytes();
    bool done = false;
    try {
      graph::Pass pass(graph, t.list());
      pass.forward();
      pass.backward(cotangent);
      done = true;
    } catch (const c10::OutOfMemoryError&) {
      ++refused;
    }
    EXPECT_EQ(meter.allocated_bytes(), before) << allowed;
    if (done) break;
    ASSERT_LT(allowed, 64 << 20);
  }
  EXPECT_GE(refused, 2);
}

TEST(Graph, ValuesAreFreedAtTheirLastUse) {
  const auto graph = linear();
  const Tensors t(1 << 15);
  CpuMeter meter;
  graph::Pass pass(graph, t.list());
  const torch::Tensor prediction = pass.forward();
  // The sum before the tanh is gone; the backward pass needs the tanh only, which is the prediction.
  EXPECT_EQ(meter.allocated_bytes(), static_cast<int64_t>(prediction.nbytes()));
}

// Writes operators one after another, behind what a graph is given.
class GraphWriter {
 public:
  explicit GraphWriter(int64_t given) : values_(given) {}

  int64_t add(const std::string& op, const std::string& overload, std::vector<Json> arguments) {
    nodes_.push_back(node(op, overload, std::move(arguments), {values_}));
    return values_++;
  }

  int64_t add(const std::string& op, std::vector<int64_t> of, const std::string& overload = "") {
    std::vector<Json> arguments;
    for (const int64_t number : of) arguments.push_back(value(number));
    return add(op, overload, std::move(arguments));
  }

  int64_t sum(int64_t a, int64_t b) { return add("aten::add", "Tensor", {value(a), value(b), kNone}); }

  Graph read(const Given& given, int64_t output, int64_t gradient) const {
    return graph::read_graph({{"nodes", nodes_}, {"prediction", output}, {"gradients", {gradient}}}, given,
                             1);
  }

  inline static const Json kNone = {{"default", true}};

 private:
  Json nodes_ = Json::array();
  int64_t values_;
};

constexpr int64_t kLayers = 6;

// Six times h = tanh(sigmoid(mask · r)), where r = relu(h · W) is made in place and the mask is drawn;
// forward and backward.
Graph of_layers() {
  const Given given{.parameters = 1, .training = true};  // W [8, 8]; then x [n, 8], and the gradient
  GraphWriter w(3);
  struct Layer {
    int64_t h = 0, r = 0, mask = 0, s = 0, out = 0;
  };
  std::vector<Layer> layers;
  int64_t h = 1;
  for (int64_t i = 0; i < kLayers; ++i) {
    Layer l{.h = h, .r = w.add("aten::relu_", {w.add("aten::mm", {h, 0})})};
    l.mask = w.add("aten::rand_like", "", {value(l.r), w.kNone, w.kNone, w.kNone, w.kNone, w.kNone});
    l.s = w.add("aten::sigmoid", {w.add("aten::mul", {l.r, l.mask}, "Tensor")});
    h = l.out = w.add("aten::tanh", {l.s});
    layers.push_back(l);
  }
  int64_t g = 2, of_weight = -1;
  for (auto l = layers.rbegin(); l != layers.rend(); ++l) {
    const int64_t of_sum = w.add("aten::sigmoid_backward", {w.add("aten::tanh_backward", {g, l->out}), l->s});
    const int64_t of_product =
        w.add("aten::threshold_backward", "",
              {value(w.add("aten::mul", {of_sum, l->mask}, "Tensor")), value(l->r), 0});
    const int64_t part = w.add("aten::mm", {w.add("aten::t", {l->h}), of_product});
    of_weight = of_weight < 0 ? part : w.sum(of_weight, part);
    g = w.add("aten::mm", {of_product, w.add("aten::t", {0})});
  }
  return w.read(given, h, of_weight);
}

// Six times h = sigmoid(a) + relu(a), where a = h · W is overwritten by the second.
Graph of_overwriting_layers() {
  const Given given{.parameters = 1, .training = true};  // W [n, 8]; then x [n, 8], and the gradient
  GraphWriter w(3);
  struct Layer {
    int64_t h = 0, s = 0, r = 0;
  };
  std::vector<Layer> layers;
  int64_t h = 1;
  for (int64_t i = 0; i < kLayers; ++i) {
    const int64_t product = w.add("aten::mul", {h, 0}, "Tensor");
    Layer l{.h = h, .s = w.add("aten::sigmoid", {product})};
    l.r = w.add("aten::relu_", {product});
    h = w.sum(l.s, l.r);
    layers.push_back(l);
  }
  int64_t g = 2, of_weight = -1;
  for (auto l = layers.rbegin(); l != layers.rend(); ++l) {
    const int64_t both = w.sum(w.add("aten::sigmoid_backward", {g, l->s}),
                               w.add("aten::threshold_backward", "", {value(g), value(l->r), 0}));
    const int64_t part = w.add("aten::mul", {both, l->h}, "Tensor");
    of_weight = of_weight < 0 ? part : w.sum(of_weight, part);
    g = w.add("aten::mul", {both, 0}, "Tensor");
  }
  return w.read(given, h, of_weight);
}

graph::GraphCosts costs_of(const Graph& graph, const std::vector<torch::Tensor>& given,
                           const torch::Tensor& cotangent) {
  graph::GraphCosts costs(graph);
  differentiated(graph, given, cotangent, {.costs = &costs});
  costs.work.assign(graph.nodes.size(), static_cast<double>(cotangent.nbytes()));  // of products, too
  return costs;
}

TEST(Graph, WhatIsComputedAgainHasTheSameBitsAndIsNotKept) {
  const Graph graph = of_layers();
  const std::vector<torch::Tensor> given = {torch::randn({8, 8}), torch::randn({4096, 8})};
  const torch::Tensor cotangent = torch::randn({4096, 8});
  const auto each = static_cast<int64_t>(cotangent.nbytes());
  const graph::GraphCosts costs = costs_of(graph, given, cotangent);
  const Differentiated whole = differentiated(graph, given, cotangent);
  // The output of the last layer is not counted: it is returned.
  EXPECT_EQ(whole.kept_bytes, (4 * kLayers - 1) * each) << "relu, mask, sigmoid, tanh";
  int64_t kept = whole.kept_bytes, peak = whole.peak_bytes;
  for (const double work : {0.0, 1.0, 2.0, 1e9}) {
    const graph::Recomputation again = graph::recompute(graph, costs, work, kAnyShare);
    EXPECT_EQ(again.bytes_before, whole.kept_bytes);
    EXPECT_LE(again.kept_bytes, kept) << work;
    const Differentiated result = differentiated(again.graph, given, cotangent);
    EXPECT_EQ(result.kept_bytes, again.kept_bytes) << work;
    EXPECT_LE(result.peak_bytes, peak) << work;
    EXPECT_TRUE(result.output.equal(whole.output));
    EXPECT_TRUE(result.gradients[0].equal(whole.gradients[0])) << work;
    kept = again.kept_bytes;
    peak = result.peak_bytes;
  }
  EXPECT_LT(kept, 2 * kLayers * each) << "masks, and few others";
  EXPECT_GE(kept, kLayers * each) << "random numbers are not drawn again";
  EXPECT_LT(peak, whole.peak_bytes - 2 * kLayers * each + 4 * each);
  EXPECT_EQ(graph::recompute(graph, costs, 0, kAnyShare).graph.nodes.size(), graph.nodes.size());
}

TEST(Graph, ProductsAreComputedAgainWithinAShareOfThePass) {
  const Graph graph = of_layers();
  const std::vector<torch::Tensor> given = {torch::randn({8, 8}), torch::randn({4096, 8})};
  graph::GraphCosts costs(graph);
  const torch::Tensor cotangent = torch::randn({4096, 8});
  const Differentiated whole = differentiated(graph, given, cotangent, {.costs = &costs});
  EXPECT_EQ(costs.work[1], 2.0 * static_cast<double>(cotangent.nbytes())) << "relu_ reads and writes";
  EXPECT_EQ(costs.work[0], 2.0 * 4096 * 8 * 8 / 16) << "16 operations in the time of a byte";
  EXPECT_TRUE(std::isinf(costs.work[2])) << "nothing is known of what draws random numbers";
  double known = 0;
  for (const double work : costs.work) known += std::isfinite(work) ? work : 0;
  EXPECT_GT(costs.whole_work, known);
  std::set<int64_t> kept;
  for (double share = 0; share < 1; share += 0.05) {
    const graph::Recomputation again = graph::recompute(graph, costs, 1e9, share);
    EXPECT_LE(again.work, share * costs.whole_work);
    kept.insert(again.kept_bytes);
    const Differentiated result = differentiated(again.graph, given, cotangent);
    EXPECT_EQ(result.kept_bytes, again.kept_bytes) << share;
    EXPECT_TRUE(result.output.equal(whole.output));
    EXPECT_TRUE(result.gradients[0].equal(whole.gradients[0])) << share;
  }
  EXPECT_GT(kept.size(), 4U) << "the more work there may be, the less is kept";
  EXPECT_EQ(*kept.rbegin(), whole.kept_bytes) << "without any, all is";
}

// What was read before it was written over cannot be had from what is there afterwards.
TEST(Graph, AValueThatIsWrittenOverIsNotComputedFromWhatBecameOfIt) {
  const Graph graph = of_overwriting_layers();
  const std::vector<torch::Tensor> tensors = {torch::randn({4096, 8}), torch::randn({4096, 8})};
  const torch::Tensor cotangent = torch::randn({4096, 8});
  const graph::GraphCosts costs = costs_of(graph, tensors, cotangent);
  const Differentiated whole = differentiated(graph, tensors, cotangent);
  for (double work = 0; work < 8; ++work) {
    const graph::Recomputation again = graph::recompute(graph, costs, work, kAnyShare);
    const Differentiated result = differentiated(again.graph, tensors, cotangent);
    EXPECT_TRUE(result.gradients[0].equal(whole.gradients[0])) << work;
    EXPECT_EQ(result.kept_bytes, again.kept_bytes) << work;
  }
  EXPECT_LT(graph::recompute(graph, costs, 100, kAnyShare).kept_bytes,
            graph::recompute(graph, costs, 0, kAnyShare).bytes_before);
}

// The halves of h = 2 x are written to through `chunk`, `split` or `unbind`, which return lists, before h is
// used.
TEST(Graph, WhatIsWrittenThroughAPartIsNotComputedFromWhatWasBefore) {
  const Json none = GraphWriter::kNone;
  const std::vector<std::tuple<std::string, std::string, Json>> ways = {
      {"aten::chunk", "", {value(3), 2, 1}},
      {"aten::split", "Tensor", {value(3), 4, 1}},
      {"aten::split_with_sizes", "", {value(3), {4, 4}, 1}}};
  for (const auto& [op, overload, arguments] : ways) {
    Json nodes = Json::array();
    nodes.push_back(node("aten::add", "Tensor", {value(1), value(1), none}, {3}));
    nodes.push_back(node(op, overload, arguments, {4, 5}));
    nodes.push_back(node("aten::mul_", "Scalar", {value(4), 3}, {6}));
    nodes.push_back(node("aten::mm", "", {value(3), value(0)}, {7}));
    nodes.push_back(node("aten::t", "", {value(3)}, {8}));
    nodes.push_back(node("aten::mm", "", {value(8), value(2)}, {9}));
    const Graph graph = graph::read_graph({{"nodes", nodes}, {"prediction", 7}, {"gradients", {9}}},
                                          {.parameters = 1, .training = true}, 1);
    const std::vector<torch::Tensor> tensors = {torch::randn({8, 8}), torch::randn({16, 8})};
    const torch::Tensor cotangent = torch::randn({16, 8});
    const graph::GraphCosts costs = costs_of(graph, tensors, cotangent);
    const Differentiated whole = differentiated(graph, tensors, cotangent);
    for (const double work : {0.0, 1.0, 100.0}) {
      const Differentiated again =
          differentiated(graph::recompute(graph, costs, work, kAnyShare).graph, tensors, cotangent);
      EXPECT_TRUE(again.gradients[0].equal(whole.gradients[0])) << op << " " << work;
    }
    nodes[2]["args"][0] = value(1);
    EXPECT_THROW(graph::read_graph({{"nodes", nodes}, {"prediction", 7}, {"gradients", {9}}},
                                   {.parameters = 1, .training = true}, 1),
                 graph::Malformed)
        << "the inputs";
    nodes[2]["args"][0] = value(4);
    nodes[1]["args"][0] = value(1);
    EXPECT_THROW(graph::read_graph({{"nodes", nodes}, {"prediction", 7}, {"gradients", {9}}},
                                   {.parameters = 1, .training = true}, 1),
                 graph::Malformed)
        << "a part of the inputs";
  }
}

TEST(Graph, SizesAreComputedAsInPython) {
  const auto computed = [](const std::string& op, int64_t a, int64_t b) {
    Json arguments = {a};
    if (op != "neg") arguments.push_back(b);
    const Json json = {{"nodes",
                        {node(op, "", arguments, {1}),
                         node("aten::add", "Tensor", {value(0), value(1), {{"default", true}}}, {2})}},
                       {"prediction", 2},
                       {"gradients", Json::array()}};
    return graph::Pass(shared(graph::read_graph(json, {}, 0)), {torch::zeros({}, torch::kFloat64)})
        .forward()
        .item<double>();
  };
  EXPECT_EQ(computed("floordiv", 7, 2), 3);
  EXPECT_EQ(computed("floordiv", -7, 2), -4);
  EXPECT_EQ(computed("floordiv", 7, -2), -4);
  EXPECT_EQ(computed("mod", -7, 3), 2);
  EXPECT_EQ(computed("mod", 7, -3), -2);
  EXPECT_EQ(computed("truediv", 7, 2), 3.5);
  EXPECT_EQ(computed("sub", 2, 7), -5);
  EXPECT_EQ(computed("neg", 7, 0), -7);
  EXPECT_EQ(computed("and", 10, 3), 2);
  EXPECT_EQ(computed("and", 10, 5), 0);
  EXPECT_EQ(computed("or", 10, 5), 15);
  EXPECT_THROW(computed("mod", 7, 0), c10::Error);
}

TEST(Graph, AnOperatorThatFailsIsNamed) {
  const auto graph = linear();
  Tensors t(2);
  t.inputs = torch::randn({2, 5});
  try {
    graph::Pass(graph, t.list()).forward();
    FAIL();
  } catch (const c10::Error& error) {
    EXPECT_TRUE(test::holds(error.what_without_backtrace(), "in operator 1 of the model file, aten::addmm"));
  }
}

TEST(Graph, BuffersAreWrittenInPlaceAndNothingElseIs) {
  const auto write_to = [](int64_t number) {
    const Json json = {
        {"nodes",
         {node("aten::alias", "", {value(number)}, {4}),
          node("aten::add_", "Tensor", {value(4), 1, {{"default", true}}}, Json::array({nullptr}))}},
        {"prediction", 4},
        {"gradients", Json::array()}};
    return shared(graph::read_graph(json, {.parameters = 1, .buffers = 1, .constants = 1}, 0));
  };
  const auto graph = write_to(1);
  const torch::Tensor buffer = torch::zeros({2});
  graph::Pass(graph, {torch::ones({2}), buffer, torch::ones({2}), torch::ones({2})}).forward();
  EXPECT_TRUE(buffer.equal(torch::ones({2})));
  for (const int64_t kept : {0, 2, 3})
    EXPECT_THROW(write_to(kept), graph::Malformed) << "through a view, too";
}

// With channels last a change of shape may have to copy, where nobody writes to what it is a view of.
TEST(Graph, AChangeOfShapeIsAViewWhereThatMatters) {
  const Json none = {{"default", true}};
  const auto op_of_view = [&](bool written_after) {
    Json nodes = {node("aten::clone", "", {value(0), none}, {1}),
                  node("aten::view", "", {value(1), Json::array({-1})}, {2})};
    if (written_after) nodes.push_back(node("aten::mul_", "Tensor", {value(2), 0}, Json::array({nullptr})));
    const Graph graph =
        graph::read_graph({{"nodes", nodes}, {"prediction", 1}, {"gradients", Json::array()}}, {}, 0);
    return graph.nodes[1].op->schema().name();
  };
  EXPECT_EQ(op_of_view(false), "aten::reshape");
  EXPECT_EQ(op_of_view(true), "aten::view");
}

Graph group_normalisation(bool of_images) {
  const Json mask = Json::array({of_images, true, false});  // which gradients are made
  const Json json = {{"nodes",
                      {node("aten::sym_size", "int", {value(1), 0}, {3}),
                       node("aten::native_group_norm", "",
                            {value(1), value(0), nullptr, value(3), 6, 16, 3, 1e-5}, {4, 5, 6}),
                       node("aten::native_group_norm_backward", "",
                            {value(2), value(1), value(5), value(6), value(0), value(3), 6, 16, 3, mask},
                            {nullptr, 7, nullptr})}},
                     {"prediction", 4},
                     {"gradients", Json::array({7})}};
  return graph::read_graph(json, {.parameters = 1, .training = true}, 1);
}

// The gradient of what was flattened is contiguous, and the images that it is of have their channels last.
TEST(Graph, GroupNormalisationHasTheSameGradientsHoweverImagesLie) {
  torch::manual_seed(4);
  const torch::Tensor weight = torch::randn({6}), images = torch::randn({5, 6, 4, 4}),
                      cotangent = torch::randn({5, 6, 4, 4});
  for (const bool of_images : {true, false}) {
    const Graph graph = group_normalisation(of_images);
    const Differentiated expected = differentiated(graph, {weight, images}, cotangent);
    for (const torch::Tensor& stored : {images.contiguous(at::MemoryFormat::ChannelsLast),
                                        images.transpose(2, 3).contiguous().transpose(2, 3)}) {
      const Differentiated found = differentiated(graph, {weight, stored}, cotangent);
      EXPECT_TRUE(found.output.allclose(expected.output, 1e-4, 1e-5)) << stored.strides();
      EXPECT_TRUE(found.gradients[0].allclose(expected.gradients[0], 1e-4, 1e-4)) << stored.strides();
    }
  }
}

TEST(Graph, WhatWasAddedToAParameterMayBeWrittenTo) {
  const Json none = {{"default", true}};
  const Json json = {{"nodes",
                      {node("aten::clone", "", {value(1), none}, {2}),
                       node("aten::add_", "Tensor", {value(2), value(0), none}, {3}),
                       node("aten::relu_", "", {value(3)}, {4})}},
                     {"prediction", 4},
                     {"gradients", Json::array()}};
  const auto graph = shared(graph::read_graph(json, {.parameters = 1}, 0));
  EXPECT_TRUE(
      graph::Pass(graph, {torch::ones({2}), torch::full({2}, -3.0)}).forward().equal(torch::zeros({2})));
}

TEST(Graph, RunningStatisticsAreBuffersAndNumbersAreNotWrittenTo) {
  const auto normalise = [](int64_t statistics) {
    const Json json = {
        {"nodes",
         {node("aten::native_batch_norm", "",
               {value(3), nullptr, nullptr, value(statistics), value(statistics), true, 0.1, 1e-5},
               {4, nullptr, nullptr})}},
        {"prediction", 4},
        {"gradients", Json::array()}};
    return graph::read_graph(json, {.parameters = 1, .buffers = 1, .constants = 1}, 0);
  };
  EXPECT_NO_THROW(normalise(1));
  EXPECT_THROW(normalise(0), graph::Malformed);
  EXPECT_THROW(normalise(2), graph::Malformed);
  const Json number = {{"nodes", {node("aten::add_", "Tensor", {1, value(0), {{"default", true}}}, {1})}},
                       {"prediction", 1},
                       {"gradients", Json::array()}};
  EXPECT_THROW(graph::read_graph(number, {}, 0), graph::Malformed);
}

TEST(Graph, WhatCannotBeRunIsRefusedBeforeAnythingRuns) {
  const auto set = [](const std::string& path, Json wanted) {
    Json json = linear_json();
    json[Json::json_pointer(path)] = std::move(wanted);
    return json;
  };
  const std::map<std::string, Json> cases = {
      {"is no operator that a model file may use", set("/nodes/0/op", "prim::Print")},
      {"operator 1, aten::from_file: is no operator", set("/nodes/1/op", "aten::from_file")},
      {"is no operator of this LibTorch", set("/nodes/0/overload", "nowhere")},
      {"is no operator on sizes that is known here", set("/nodes/3/op", "exec")},
      {"takes 2 operands", set("/nodes/3/args", Json::array({1}))},
      {"takes 1 arguments", set("/nodes/0/args", {value(0), value(0)})},
      {"argument \"mat2\" is missing", set("/nodes/1/args", {value(1), value(2)})},
      {"takes value 99, which is not made yet", set("/nodes/1/args/0", value(99))},
      {"operator 5, aten::tanh: ", set("/nodes/5/args/0", Json())},
      {"argument \"dim\" is not a number", set("/nodes/2/args/1", value(0))},
      {"argument \"shape\" is not a list", set("/nodes/4/args/1", 3)},
      {"makes another value than number 4", set("/nodes/0/out", {0})},
      {"operator 1, aten::addmm: ", set("/nodes/1/out", {-1})},
      {"has 1 results", set("/nodes/0/out", {4, 5})},
      {"2 parameters", set("/gradients", {13})},
      {"value 7 is not a tensor", set("/prediction", 7)},
      {"value 1 is given and not made", set("/prediction", 1)},
      {"value 0 is given and not made", set("/gradients/0", 0)},
      {"an output is not made before what needs its gradient", set("/prediction", 11)},
      {"\"nodes\" is not a list", set("/nodes", "all")},
  };
  for (const auto& [message, json] : cases) {
    try {
      graph::read_graph(json, kLinear, 2);
      ADD_FAILURE() << message;
    } catch (const graph::Malformed& error) {
      EXPECT_TRUE(test::holds(error.what(), message));
    }
  }
}

// The mean of (x · w − y)² and, beside it, x · w: weight [3, 1], then x [n, 3] and y [n, 1].
Json loss_json() {
  const Json none = {{"default", true}};
  return {{"nodes",
           {
               node("aten::mm", "", {value(1), value(0)}, {3}),
               node("aten::mse_loss", "", {value(3), value(2), none}, {4}),
           }},
          {"loss", 4},
          {"prediction", 3},
          {"gradients", Json::array()}};
}

TEST(Graph, APassWithTargetsGivesTheLossAndWhatIsPredictedBesideIt) {
  const Json none = GraphWriter::kNone;
  const Given given{.parameters = 1, .inputs = 2, .loss = true};
  const Graph whole = graph::read_graph(loss_json(), given, 0);
  const torch::Tensor w = torch::randn({3, 1}), x = torch::randn({5, 3}), y = torch::randn({5, 1});
  graph::Pass pass(shared(whole), {w, x, y});
  EXPECT_TRUE(pass.forward().equal(torch::mse_loss(x.mm(w), y)));
  EXPECT_TRUE(pass.prediction_beside().equal(x.mm(w)));

  const Graph alone = graph::prediction_alone(whole);
  EXPECT_EQ(alone.nodes.size(), 1U);
  EXPECT_TRUE(graph::uses(whole, 2));
  EXPECT_FALSE(graph::uses(alone, 2));
  graph::Pass without_targets(shared(alone), {w, x, {}});
  EXPECT_TRUE(without_targets.forward().equal(x.mm(w)));
  EXPECT_FALSE(without_targets.prediction_beside().defined());

  Json smoothed = loss_json();  // by targets that are written to a tensor of its own
  smoothed["nodes"] = {node("aten::mm", "", {value(1), value(0)}, {3}),
                       node("aten::zeros_like", "", {value(3), none, none, none, none, none}, {4}),
                       node("aten::add_", "Tensor", {value(4), value(2), none}, {5}),
                       node("aten::mse_loss", "", {value(3), value(5), none}, {6}),
                       node("aten::mul_", "Scalar", {value(3), 2}, {7})};
  smoothed["loss"] = 6;
  const Graph of_smoothed = graph::prediction_alone(graph::read_graph(smoothed, given, 0));
  EXPECT_FALSE(graph::uses(of_smoothed, 2));
  graph::Pass doubled(shared(of_smoothed), {w, x, {}});
  EXPECT_TRUE(doubled.forward().equal(x.mm(w) * 2)) << "what is written to the prediction stays";

  Json no_loss = loss_json();
  no_loss.erase("loss");
  EXPECT_THROW(graph::read_graph(no_loss, given, 0), nlohmann::json::exception);
}

}  // namespace
}  // namespace autotrain
