#include "data/loader.h"

#include <atomic>
#include <thread>

#include "base/random.h"
#include "support/support.h"

namespace autotrain {
namespace {

// Sample i of epoch e is (i, key of i in e), so that every byte shows where it came from.
class Traced final : public Dataset {
 public:
  explicit Traced(int64_t size, int64_t fails_at = -1) : size_(size), fails_at_(fails_at) {}
  int64_t size() const override { return size_; }
  Batch get(c10::ArrayRef<int64_t> indices, const SampleRandom& random) const override {
    ++requests;
    const auto n = static_cast<int64_t>(indices.size());
    Batch batch{torch::empty({n}, torch::kInt64), torch::empty({n}, torch::kInt64), n};
    for (size_t i = 0; i < indices.size(); ++i) {
      if (indices[i] == fails_at_) throw Error(ExitCode::kBadData, "sample", "is broken");
      batch.inputs[static_cast<int64_t>(i)] = indices[i];
      batch.targets[static_cast<int64_t>(i)] = static_cast<int64_t>(random.key(i));
    }
    return batch;
  }
  mutable std::atomic<int> requests{0};

 private:
  int64_t size_, fails_at_;
};

std::vector<int64_t> values(const torch::Tensor& tensor) {
  return {tensor.const_data_ptr<int64_t>(), tensor.const_data_ptr<int64_t>() + tensor.numel()};
}

std::vector<int64_t> first_samples(int64_t count, int64_t position, int64_t micro_batch, int64_t prefetch) {
  const Traced data(23);
  Loader loader(data, Stream(4, 23, true), endless_windows({16, micro_batch}, position),
                {.prefetch = prefetch});
  std::vector<int64_t> all;
  while (static_cast<int64_t>(all.size()) < 2 * count) {
    const Batch batch = *loader.next();
    const auto inputs = values(batch.inputs), keys = values(batch.targets);
    for (size_t i = 0; i < inputs.size() && static_cast<int64_t>(all.size()) < 2 * count; ++i) {
      all.push_back(inputs[i]);
      all.push_back(keys[i]);
    }
  }
  return all;
}

TEST(Loader, SamplesAndTheirKeysDoNotDependOnCutOrPrefetch) {
  const auto reference = first_samples(100, 0, 16, 0);
  for (const int64_t micro : {1, 3, 5, 16}) {
    for (const int64_t prefetch : {0, 1, 4}) EXPECT_EQ(first_samples(100, 0, micro, prefetch), reference);
  }
}

TEST(Loader, StartsAnywhere) {
  const auto reference = first_samples(200, 0, 16, 2);
  const auto later = first_samples(50, 32, 5, 2);
  EXPECT_TRUE(std::equal(later.begin(), later.end(), reference.begin() + 64));
}

TEST(Loader, OnePassEndsAndStaysEnded) {
  const Traced data(10);
  for (const int64_t prefetch : {0, 2}) {
    Loader loader(data, Stream(0, 10, false), one_pass(10, 4), {.prefetch = prefetch});
    EXPECT_EQ(values(loader.next()->inputs), (std::vector<int64_t>{0, 1, 2, 3}));
    EXPECT_EQ(loader.next()->samples, 4);
    EXPECT_EQ(loader.next()->samples, 2);
    EXPECT_FALSE(loader.next());
    EXPECT_FALSE(loader.next());
  }
}

TEST(Loader, ErrorsArriveInTheirPlace) {
  const Traced data(10, 5);
  for (const int64_t prefetch : {0, 3}) {
    Loader loader(data, Stream(0, 10, false), one_pass(10, 4), {.prefetch = prefetch});
    EXPECT_EQ(loader.next()->samples, 4);
    test::expect_error(ExitCode::kBadData, [&] { loader.next(); });
    if (prefetch > 0) test::expect_error(ExitCode::kBadData, [&] { loader.next(); });
  }
}

TEST(Loader, PreparesNoMoreThanItMay) {
  const Traced data(1000);
  Loader loader(data, Stream(0, 1000, false), endless_windows({8, 8}, 0), {.prefetch = 3});
  loader.wait_until_full();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(data.requests, 3);
}

TEST(Loader, CanBeDroppedAtAnyMoment) {
  const Traced data(1000);
  Random random(1);
  for (int i = 0; i < 300; ++i) {
    Loader loader(data, Stream(0, 1000, true), endless_windows({64, 16}, random.below(5000)),
                  {.prefetch = random.below(4)});
    for (int64_t n = random.below(4); n > 0; --n) loader.next();
  }
}

}  // namespace
}  // namespace autotrain
