#include "recipe/compare.h"

#include "support/catalog.h"
#include "support/support.h"

namespace autotrain {
namespace {

TEST(Compare, NamesEachKeyThatDiffersAndWhetherItIsLearned) {
  const Catalog rows = test::small_catalog();
  Recipe a, b;
  b.optimizer.lr = 0.5;
  b.execution.micro_batch = 32;
  b.model.parameters["width"] = int64_t{64};
  const auto differences = differing_keys(a, b, rows);
  ASSERT_EQ(differences.size(), 3u);
  EXPECT_EQ(differences[0].path, "execution.micro_batch");
  EXPECT_FALSE(differences[0].learned);
  EXPECT_EQ(differences[1].path, "model.width");
  EXPECT_EQ(differences[1].before, "32");
  EXPECT_EQ(differences[1].after, "64");
  EXPECT_TRUE(differences[1].learned);
  EXPECT_EQ(differences[2].path, "optimizer.lr");
}

TEST(Compare, ADefaultWrittenOutIsNoDifference) {
  const Catalog rows = test::small_catalog();
  Recipe a, b;
  b.model.parameters["width"] = int64_t{32};
  EXPECT_TRUE(differing_keys(a, b, rows).empty());
}

TEST(Compare, AnotherRowShowsTheKeysOfBoth) {
  const Catalog rows = test::small_catalog();
  Recipe a, b;
  b.model.name = "mlp";
  const std::string text = describe(differing_keys(a, b, rows));
  EXPECT_TRUE(test::holds(text, "model.name: cnn → mlp"));
  EXPECT_TRUE(test::holds(text, "model.depth: absent → 2"));
}

}  // namespace
}  // namespace autotrain
