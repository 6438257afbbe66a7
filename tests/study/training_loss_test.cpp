#include "study/training_loss.h"

#include "support/support.h"

namespace autotrain {
namespace {

TEST(TrainingLoss, IsTheMeanOfTheLastSamplesHoweverTheyWereCut) {
  const LossSums small = {{10, 30}, {20, 50}, {30, 60}, {40, 65}};  // of 3, 2, 1 and 0.5
  const LossSums large = {{20, 50}, {40, 65}};
  for (const LossSums& sums : {small, large}) {
    EXPECT_DOUBLE_EQ(smoothed_loss(sums, 20, 20).value(), 2.5);
    EXPECT_DOUBLE_EQ(smoothed_loss(sums, 40, 20).value(), 0.75);
    EXPECT_DOUBLE_EQ(smoothed_loss(sums, 40, 40).value(), 65.0 / 40);
  }
  EXPECT_DOUBLE_EQ(smoothed_loss(small, 25, 10).value(), 1.5);
  EXPECT_FALSE(smoothed_loss(small, 10, 20)) << "too few samples before it";
  EXPECT_FALSE(smoothed_loss(small, 41, 10)) << "beyond its end";
  EXPECT_FALSE(smoothed_loss({}, 10, 10));
}

TEST(TrainingLoss, ItsPlaceIsWhereItFirstCameDown) {
  const LossSums sums = {{10, 30}, {20, 50}, {30, 80}, {40, 90}};  // of 3, 2, 3 and 1
  EXPECT_EQ(place_of_loss(sums, 3, 10), 10);
  EXPECT_EQ(place_of_loss(sums, 2.5, 10), 15);
  EXPECT_EQ(place_of_loss(sums, 1, 10), 40);
  EXPECT_FALSE(place_of_loss(sums, 0.9, 10));
  EXPECT_EQ(first_loss(sums, 10), 3);
  EXPECT_EQ(first_loss(sums, 40), end_loss(sums, 40));
  EXPECT_FALSE(first_loss(sums, 41));
}

TEST(TrainingLoss, IsReadWithoutWhatARollbackTookBack) {
  const test::TemporaryFolder folder;
  const auto path = folder.write("metrics.jsonl", R"(
{"kind":"update","update":1,"samples":10,"loss":3}
{"kind":"update","update":2,"samples":20,"loss":9}
{"kind":"evaluation","update":2,"loss":77}
{"kind":"update","update":3,"samples":30,"loss":9}
{"kind":"update","update":2,"samples":20,"loss":2}
{"kind":"update","update":3,"samples":30,"loss":1}
)");
  const LossSums sums = loss_sums_from_json(loss_sums_to_json(read_loss_sums(path)));
  ASSERT_EQ(sums.size(), 3u);
  EXPECT_EQ(sums[2].samples, 30);
  EXPECT_EQ(sums[2].sum, 60);
}

TEST(TrainingLoss, AFewSumsOfALongRunHaveTheSameMeans) {
  const test::TemporaryFolder folder;
  std::string rows;
  for (int i = 1; i <= 1000; ++i) {
    rows += "{\"kind\":\"update\",\"update\":" + std::to_string(i) + ",\"samples\":" + std::to_string(4 * i) +
            ",\"loss\":" + std::to_string(1000 - i) + "}\n";
  }
  const auto path = folder.write("metrics.jsonl", rows);
  const LossSums all = read_loss_sums(path, 1000), few = read_loss_sums(path, 50);
  EXPECT_LE(few.size(), 50u);
  EXPECT_EQ(few.back().samples, 4000);
  EXPECT_NEAR(*smoothed_loss(few, 4000, 1000), *smoothed_loss(all, 4000, 1000), 1);
  for (const LossSum& each : few) {
    const auto place = static_cast<size_t>(each.samples / 4 - 1);
    EXPECT_EQ(each.sum, all[place].sum);
  }
}

TEST(TrainingLoss, SumsThatDoNotAscendAreRefused) {
  EXPECT_THROW(loss_sums_from_json({{10, 1.0}, {10, 2.0}}), nlohmann::json::exception);
  EXPECT_THROW(loss_sums_from_json({{0, 1.0}}), nlohmann::json::exception);
}

}  // namespace
}  // namespace autotrain
