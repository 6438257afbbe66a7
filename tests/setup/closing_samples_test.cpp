#include "setup/closing_samples.h"

#include "data/closing.h"
#include "support/support.h"

namespace autotrain {
namespace {

struct Watched final : Dataset, Closing {
  int64_t size() const override { return 1000; }
  Batch get(c10::ArrayRef<int64_t>, const SampleRandom&) const override { return {}; }
  void close_from(int64_t position) override { closed = position; }
  std::optional<int64_t> closed;
};

Recipe closing(double share) {
  Recipe r;
  r.data.augment.mosaic = 1;
  r.data.augment.close_mosaic = share;
  r.batch.effective = 50;
  r.stop = {};
  return r;
}

std::optional<int64_t> closed_by(const Recipe& recipe) {
  Watched data;
  close_samples(recipe, data);
  return data.closed;
}

TEST(ClosingSamples, TheShareIsOfTheSamplesThatStopAllows) {
  Recipe r = closing(0.1);
  r.stop.epochs = 20;
  EXPECT_EQ(closed_by(r), 18000);
  r.stop.updates = 100;  // of 50 each: sooner
  EXPECT_EQ(closed_by(r), 4500);
  r.stop.samples = 800;
  r.stop.minutes = 3;
  EXPECT_EQ(closed_by(r), 720);
  r.data.bad_samples = BadSamples::kSkip;
  EXPECT_EQ(closed_by(r), 1000) << "the end of that epoch";
  r.data.augment.close_mosaic = 0;
  EXPECT_EQ(closed_by(r), std::nullopt);
}

TEST(ClosingSamples, ARunOfUnknownLengthOrWithNothingToCloseIsRefused) {
  Recipe r = closing(0.1);
  r.stop.minutes = 5;
  const auto refused = [&] { return test::expect_error(ExitCode::kBadRecipe, [&] { closed_by(r); }); };
  EXPECT_TRUE(test::holds(refused().problem(), "not known"));
  r.stop.updates = 10;
  r.batch.effective.reset();
  EXPECT_TRUE(test::holds(refused().problem(), "not known"));
  r.batch.effective = 50;
  EXPECT_EQ(closed_by(r), 450);
  r.data.augment.mosaic = 0;
  EXPECT_TRUE(test::holds(refused().problem(), "nothing to close"));
  r.data.augment.mix_up = 0.1;
  EXPECT_EQ(closed_by(r), 450);
}

}  // namespace
}  // namespace autotrain
