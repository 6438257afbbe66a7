#include "autotrain/registry.h"
#include "autotrain/trainer.h"
#include "model/models.h"
#include "state/catalog.h"
#include "support/support.h"

// What a program may give recipes; tests/own_program shows that it works.
namespace autotrain {
namespace {

OwnNetwork nothing_made(const OwnValues&, const DatasetInfo&) {
  return {};
}

void expect_refused(const Registry& registry, const std::string& words) {
  forget_catalog();
  const size_t rows = model_table().size();
  const Error error = test::expect_error(ExitCode::kUsage, [&] { add_to_recipes(registry); });
  EXPECT_TRUE(test::holds(error.what(), words)) << error.what();
  EXPECT_EQ(model_table().size(), rows);
}

TEST(OwnParts, ThatAreNotWholeOrWhoseNamesAreTakenAreRefused) {
  expect_refused({.models = {{{"mlp", "Taken."}, nothing_made}}}, "the model mlp already");
  expect_refused({.models = {{{"", "Empty."}, nothing_made}}}, "a-z");
  expect_refused({.models = {{{"My Net", "Odd."}, nothing_made}}}, "a-z");
  expect_refused({.models = {{{"net", "No function."}, nullptr}}}, "no function that makes it");
  expect_refused({.models = {{{"net", "A key.", {{"name", "Taken.", int64_t{1}}}}, nothing_made}}},
                 "a key name");
  expect_refused({.models = {{{"net", "A key.", {{"a", "One.", 1.0}, {"a", "Two.", 1.0}}}, nothing_made}}},
                 "a key a,");
  expect_refused({.models = {{{"net", "A key.", {{"a", "A list.", std::vector<double>{1}}}}, nothing_made}}},
                 "another type");
  const auto make = [](const OwnValues&) { return [](const OwnStep&) {}; };
  expect_refused({.optimizers = {{.part = {"own", "A key.", {{"lr", "Taken.", 0.1}}}, .make = make}}},
                 "a key lr");
  expect_refused({.optimizers = {{.part = {"own", "Two."}, .states = {"mean", "mean"}, .make = make}}},
                 "two states mean");
  expect_refused({.optimizers = {{.part = {"own", "None."}, .states = {""}, .make = make}}}, "a-z");
  expect_refused({.metrics = {{{"own", "Of nothing."}, {}, [](const MetricOptions&) { return nullptr; }}}},
                 "targets");
}

TEST(OwnParts, AfterARecipeWasReadAreRefused) {
  forget_catalog();
  (void)catalog();
  const Error error = test::expect_error(ExitCode::kUsage, [&] {
    add_to_recipes({.models = {{{"net", "Late."}, nothing_made}}});
  });
  EXPECT_TRUE(test::holds(error.what(), "before load_recipe"));
  add_to_recipes({});  // nothing to add is no mistake
}

TEST(OwnParts, AskingForAKeyThatIsNotDeclaredIsAMistakeOfTheProgram) {
  const OwnValues values({{"width", int64_t{3}}});
  EXPECT_EQ(values.integer("width"), 3);
  EXPECT_THROW(values.real("width"), std::logic_error);
  EXPECT_THROW(values.integer("depth"), std::logic_error);
}

}  // namespace
}  // namespace autotrain
