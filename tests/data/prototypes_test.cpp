#include "data/prototypes.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "base/random.h"

namespace autotrain {
namespace {

// One sequence of numbers, drawn from its beginning.
std::vector<float> drawn_at_once(uint64_t key, int64_t size, int64_t classes) {
  std::vector<float> values(static_cast<size_t>(size * classes));
  Random random(key);
  for (float& value : values) value = static_cast<float>(random.normal());
  return values;
}

bool equal(const Prototypes& points, const std::vector<float>& values, int64_t size, int64_t label) {
  return std::memcmp(points.of(label), values.data() + label * size,
                     static_cast<size_t>(size) * sizeof(float)) == 0;
}

TEST(Prototypes, AreTheStretchesOfOneSequenceInWhateverOrderTheyAreAskedFor) {
  for (const auto& [size, classes] :
       {std::pair<int64_t, int64_t>{1, 3}, {7, 5000}, {784, 47}, {20'000, 5}, {(1 << 14) - 1, 4}}) {
    const Prototypes points(11, size, classes);
    const std::vector<float> values = drawn_at_once(11, size, classes);
    Random order(static_cast<uint64_t>(size));
    for (int i = 0; i < 50; ++i) {
      const int64_t label = order.below(classes);
      ASSERT_TRUE(equal(points, values, size, label)) << size << ": " << label;
    }
    EXPECT_TRUE(equal(points, values, size, classes - 1));
  }
}

TEST(Prototypes, ThreadsThatAskAtOnceSeeWholePoints) {
  constexpr int64_t kSize = 5000, kClasses = 40;
  const std::vector<float> values = drawn_at_once(3, kSize, kClasses);
  const Prototypes points(3, kSize, kClasses);
  std::vector<std::thread> threads;
  std::vector<int64_t> wrong(4);
  for (size_t thread = 0; thread < wrong.size(); ++thread) {
    threads.emplace_back([&, thread] {
      for (int64_t label = 0; label < kClasses; ++label)
        wrong[thread] += !equal(points, values, kSize, label);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int64_t>(4));
}

TEST(Prototypes, OfOneKindThereIsOneInTheProcess) {
  const auto points = Prototypes::of_process(1, 20, 4);
  EXPECT_EQ(Prototypes::of_process(1, 20, 4), points);
  for (const auto& other : {Prototypes::of_process(2, 20, 4), Prototypes::of_process(1, 21, 4),
                            Prototypes::of_process(1, 20, 5)}) {
    EXPECT_NE(other, points);
  }
}

}  // namespace
}  // namespace autotrain
