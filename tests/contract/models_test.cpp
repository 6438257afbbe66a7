// Tests what holds for every row of the model table.
#include "model/models.h"

#include "data/channels_last.h"
#include "model/boxes.h"
#include "optim/optimizer.h"
#include "support/fixtures.h"
#include "support/support.h"

namespace autotrain {
namespace {

struct Case {
  Choice choice;
  SampleShape shape;
  std::vector<int64_t> grid = {};  // a detector's cells, [rows, columns]
  int64_t points = 0;              // those of model yolo
};

std::vector<Case> cases() {
  const SampleShape images{{3, 32, 32}, 10, 0}, tokens{{12}, 17, 17};
  return {{{"mlp", {{"dropout", 0.1}}}, images},
          {{"cnn", {{"dropout", 0.1}}}, images},
          {{"resnet18", {{"stem", std::string("small")}}}, images},
          {{"resnet34", {}}, images},
          {{"resnet50", {}}, images},
          {{"detector", {{"width", int64_t{8}}, {"blocks", int64_t{3}}}}, {{3, 32, 44}, 10, 0}, {4, 6}},
          {{"yolo", {{"size", std::string("p")}}}, {{3, 32, 44}, 10, 0}, {}, 4 * 6 + 2 * 3 + 1 * 2},
          {{"exported", {{"file", std::string(AUTOTRAIN_FIXTURES "/exported_small.autotrain")}}}, images},
          {{"torchscript", {{"file", std::string(AUTOTRAIN_FIXTURES "/scripted_small.pt")}}}, images},
          {{"transformer", {{"width", int64_t{16}}, {"layers", int64_t{2}}, {"dropout", 0.1}}}, tokens},
          {{"transformer", {{"width", int64_t{16}}, {"layers", int64_t{1}}, {"tied", false}}}, tokens},
          {{"transformer",
            {{"width", int64_t{16}},
             {"layers", int64_t{1}},
             {"kv_heads", int64_t{2}},
             {"positions", std::string("rotary")}}},
           tokens}};
}

torch::Tensor inputs_for(const Case& c, int64_t n) {
  std::vector<int64_t> shape = {n};
  shape.insert(shape.end(), c.shape.input.begin(), c.shape.input.end());
  return c.shape.vocabulary > 0 ? torch::randint(c.shape.vocabulary, shape) : torch::randn(shape);
}

TEST(ModelContract, EveryRowIsCovered) {
  std::set<std::string> covered;
  for (const Case& c : cases()) covered.insert(c.choice.name);
  for (const ModelRow& row : model_table()) EXPECT_TRUE(covered.contains(row.spec.name)) << row.spec.name;
}

TEST(ModelContract, PredictionsHaveTheClassesLast) {
  for (const Case& c : cases()) {
    const auto model = make_model(c.choice, c.shape);
    std::vector<int64_t> shape = {2, c.shape.classes};
    if (c.shape.vocabulary > 0) shape.insert(shape.begin() + 1, c.shape.input[0]);
    if (!c.grid.empty()) shape = {2, c.grid[0], c.grid[1], 5 + c.shape.classes};  // objectness and box first
    if (c.points > 0) shape = {2, c.points, 4 * kYoloBins + c.shape.classes + kPointColumns};
    EXPECT_EQ(model->forward(inputs_for(c, 2)).sizes(), shape) << c.choice.name;
  }
}

TEST(ModelContract, ImagesMayLieWithTheirChannelsLast) {
  for (const Case& c : cases()) {
    if (c.shape.vocabulary > 0) continue;
    const auto model = make_model(c.choice, c.shape);
    model->eval();
    const torch::Tensor inputs = inputs_for(c, 2);
    const torch::Tensor a = model->forward(inputs), b = model->forward(channels_last(inputs));
    EXPECT_LT((a - b).norm().item<double>(), 1e-3 * a.norm().item<double>()) << c.choice.name;
    model->train();
    EXPECT_NO_THROW(model->forward(channels_last(inputs)).square().sum().backward()) << c.choice.name;
  }
}

TEST(ModelContract, EveryParameterIsFloatAndGetsAGradient) {
  for (const Case& c : cases()) {
    const auto model = make_model(c.choice, c.shape);
    model->forward(inputs_for(c, 4)).square().sum().backward();
    for (const NamedTensor& parameter : trainable_parameters(*model)) {
      EXPECT_EQ(parameter.tensor.scalar_type(), torch::kFloat32);
      EXPECT_TRUE(parameter.tensor.grad().defined()) << c.choice.name << " " << parameter.name;
    }
  }
}

TEST(ModelContract, EqualSeedsGiveEqualWeightsAndEvaluationIsDeterministic) {
  for (const Case& c : cases()) {
    torch::manual_seed(5);
    const auto a = make_model(c.choice, c.shape);
    torch::manual_seed(5);
    const auto b = make_model(c.choice, c.shape);
    a->eval();
    b->eval();
    const torch::Tensor inputs = inputs_for(c, 2);
    EXPECT_TRUE(a->forward(inputs).equal(b->forward(inputs))) << c.choice.name;
  }
}

TEST(ModelContract, SamplesOfTheWrongKindAreRefusedWithAHint) {
  const SampleShape images{{1, 28, 28}, 10, 0}, vectors{{64}, 10, 0}, tokens{{12}, 17, 17};
  for (const auto& [name, shape] : {std::pair{"mlp", tokens},
                                    {"cnn", vectors},
                                    {"resnet18", tokens},
                                    {"transformer", images},
                                    {"detector", vectors}}) {
    const Error error = test::expect_error(ExitCode::kBadRecipe, [&, n = name, s = shape] {
      make_model({n, {}}, s);
    });
    EXPECT_FALSE(error.hint().empty());
  }
  const Choice exported{"exported", {{"file", std::string(AUTOTRAIN_FIXTURES "/exported_small.autotrain")}}};
  for (const SampleShape& shape : {images, tokens})
    test::expect_error(ExitCode::kBadRecipe, [&] { make_model(exported, shape); });
  const Choice odd{"transformer", {{"width", int64_t{30}}, {"heads", int64_t{4}}}};
  test::expect_error(ExitCode::kBadRecipe, [&] { make_model(odd, tokens); });
}

TEST(ModelContract, DataWithoutTargetsAreRefusedWithAHint) {
  for (const Case& c : cases()) {
    SampleShape shape = c.shape;
    shape.classes = 0;
    const Error error = test::expect_error(ExitCode::kBadRecipe, [&] { make_model(c.choice, shape); });
    EXPECT_FALSE(error.hint().empty());
  }
}

TEST(ModelContract, ResNetsHaveTorchvisionsNamesAndShapes) {
  const auto expected = test::fixture("torchvision_resnets.json");
  for (const auto& [name, tensors] : expected.items()) {
    const auto model = make_model({name, {}}, {{3, 224, 224}, 1000, 0});
    std::map<std::string, std::vector<int64_t>> shapes;
    for (const auto& item : model->named_parameters()) shapes[item.key()] = item.value().sizes().vec();
    for (const auto& item : model->named_buffers()) shapes[item.key()] = item.value().sizes().vec();
    EXPECT_EQ(shapes, (tensors.get<std::map<std::string, std::vector<int64_t>>>())) << name;
  }
}

}  // namespace
}  // namespace autotrain
