#include "model/chosen_inputs.h"

#include "model/models.h"
#include "support/support.h"

namespace autotrain {
namespace {

const SampleShape kTwo{
    .input = {3}, .classes = 2, .inputs = {{"image", torch::kFloat32, {3}}, {"mask", torch::kBool, {4}}}};

TEST(ChosenInputs, AreThoseOfTheRecipeInItsOrder) {
  const Batch batch{torch::randn({2, 3}), {}, 2, {torch::zeros({2, 4}, torch::kBool)}};
  const ChosenInputs turned({"mask", "image"}, kTwo);
  ASSERT_EQ(turned.of(batch).size(), 2U);
  EXPECT_TRUE(turned.of(batch)[0].is_same(batch.more_inputs[0]));
  EXPECT_TRUE(turned.of(batch)[1].is_same(batch.inputs));
  EXPECT_EQ(turned.infos()[0].type, torch::kBool);
  EXPECT_EQ(ChosenInputs({"mask"}, kTwo).of(batch).size(), 1U);
}

TEST(ChosenInputs, AreTheOnlyOneWhereNoneIsNamed) {
  const ChosenInputs only({}, {.input = {12}, .classes = 17, .vocabulary = 17});
  ASSERT_EQ(only.infos().size(), 1U);
  EXPECT_EQ(only.infos()[0], (InputInfo{"inputs", torch::kInt64, {12}}));
  const InputInfo column{"age", torch::kFloat32, {1}}, number{"age", torch::kFloat32, {1}, true};
  EXPECT_TRUE(inputs_alike({column}, {number}));
  EXPECT_FALSE(inputs_alike({column}, {{"age", torch::kFloat32, {2}}}));
  EXPECT_FALSE(inputs_alike({column}, {column, number}));
}

TEST(ChosenInputs, ThatAreNotThereAreErrorsWithTheNearest) {
  const Error slip = test::expect_error(ExitCode::kBadRecipe, [] { ChosenInputs({"maks"}, kTwo); });
  EXPECT_TRUE(test::holds(slip.what(), "image, mask"));
  EXPECT_EQ(slip.hint(), "did you mean \"mask\"?");
  const Error none = test::expect_error(ExitCode::kBadRecipe, [] { ChosenInputs({}, kTwo); });
  EXPECT_TRUE(test::holds(none.hint(), "model.inputs: [image, mask]"));
}

TEST(ChosenInputs, AreNothingForModelsThatTakeOne) {
  test::expect_error(ExitCode::kBadRecipe, [] { make_model({"mlp", {}}, kTwo); });
  SampleShape numbers = kTwo;
  numbers.inputs = {{"only", torch::kFloat32, {3}}};
  EXPECT_NO_THROW(make_model({"mlp", {}}, numbers));
  numbers.inputs[0].type = torch::kInt64;
  test::expect_error(ExitCode::kBadRecipe, [&] { make_model({"mlp", {}}, numbers); });
}

TEST(ABatchOfSeveralInputs, IsChangedAsAWhole) {
  const Batch batch{torch::ones({2}), torch::ones({2}), 2, {torch::ones({2}), torch::ones({2})}};
  const Batch changed = batch.with_each([](const torch::Tensor& tensor) { return tensor + 1; });
  ASSERT_EQ(changed.tensors().size(), 4U);
  for (const torch::Tensor& tensor : changed.tensors()) EXPECT_TRUE(tensor.equal(torch::full({2}, 2.0F)));
  EXPECT_TRUE(batch.more_inputs[1].equal(torch::ones({2}))) << "of its own";
  EXPECT_EQ(batch.all_inputs().size(), 3U);
  EXPECT_EQ((Batch{torch::ones({2}), {}, 2}.tensors().size()), 1U);
}

}  // namespace
}  // namespace autotrain
