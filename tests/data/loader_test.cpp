#include "data/loader.h"

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <thread>

#include "base/random.h"
#include "support/counted.h"
#include "support/ragged.h"
#include "support/support.h"

namespace autotrain {
namespace {

// Sample i of epoch e is (i, key of i in e), so that every byte shows where it came from. Some take longer
// than others, so that batches are ready out of order.
class Traced final : public Dataset {
 public:
  explicit Traced(int64_t size, int64_t fails_at = -1) : size_(size), fails_at_(fails_at) {}
  int64_t size() const override { return size_; }
  Batch get(c10::ArrayRef<int64_t> indices, const SampleRandom& random) const override {
    ++requests;
    if (indices[0] % 7 == 3) std::this_thread::sleep_for(std::chrono::microseconds(200));
    const auto n = static_cast<int64_t>(indices.size());
    Batch batch{torch::empty({n}, torch::kInt64), torch::empty({n}, torch::kInt64), n};
    batch.indices = torch::empty({n}, torch::kInt64);  // carries positions
    for (size_t i = 0; i < indices.size(); ++i) {
      batch.indices.mutable_data_ptr<int64_t>()[i] = random.position(i);
      if (indices[i] == fails_at_) throw std::runtime_error("is broken");
      batch.inputs.mutable_data_ptr<int64_t>()[i] = indices[i];
      batch.targets.mutable_data_ptr<int64_t>()[i] = static_cast<int64_t>(random.key(i));
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

std::vector<int64_t> first_samples(int64_t count, int64_t position, int64_t micro_batch,
                                   Loader::Options options) {
  const Traced data(23);
  const Stream stream(4, 23, true);
  Loader loader(data, stream, endless_windows(data, stream, {16, micro_batch}, position), options);
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

TEST(Loader, DeliversImagesInTheFormatThatWasAskedFor) {
  const TensorDataset data(torch::randn({8, 3, 4, 5}), torch::arange(8), 8);
  for (const int64_t workers : {0, 2}) {
    const Stream stream(4, 8, /*shuffle=*/true);
    const auto first = [&](bool channels_last) {
      return *Loader(data, stream, endless_windows(data, stream, {8, 4}, 0),
                     {.workers = workers, .channels_last = channels_last})
                  .next();
    };
    const Batch contiguous = first(false), last = first(true);
    EXPECT_TRUE(contiguous.inputs.is_contiguous());
    EXPECT_TRUE(last.inputs.is_contiguous(at::MemoryFormat::ChannelsLast));
    EXPECT_TRUE(last.inputs.equal(contiguous.inputs));
    EXPECT_TRUE(last.targets.equal(contiguous.targets));
  }
}

TEST(Loader, SamplesAndTheirKeysDoNotDependOnCutWorkersOrPrefetch) {
  const auto reference = first_samples(300, 0, 16, {.workers = 0});
  for (const int64_t micro : {1, 3, 5, 16}) {
    for (const int64_t workers : {0, 1, 2, 5}) {
      for (const int64_t prefetch : {0, 1, 4, 9}) {
        EXPECT_EQ(first_samples(300, 0, micro, {.workers = workers, .prefetch = prefetch}), reference)
            << micro << " " << workers << " " << prefetch;
      }
    }
  }
}

TEST(Loader, SamplesKnowTheirPlaceInTheRun) {
  const Traced data(23);
  const Stream stream(4, 23, true);
  for (const int64_t workers : {0, 2}) {
    Loader loader(data, stream, endless_windows(data, stream, {16, 5}, /*position=*/40),
                  {.workers = workers});
    for (int64_t next = 40; next < 200;) {
      for (const int64_t position : values(loader.next()->indices)) EXPECT_EQ(position, next++);
    }
  }
  EXPECT_EQ(SampleRandom(1, {3}, {0}).position(0), -1) << "a sample of no run";
}

TEST(Loader, StartsAnywhere) {
  const auto reference = first_samples(400, 0, 16, {});
  Random random(2);
  for (int i = 0; i < 20; ++i) {
    const int64_t from = random.below(300);
    const auto later =
        first_samples(50, from, 1 + random.below(16), {.workers = 1 + random.below(5), .prefetch = 6});
    EXPECT_TRUE(std::equal(later.begin(), later.end(), reference.begin() + 2 * from)) << from;
  }
}

TEST(Loader, WorkersMayComeAndGoWhileItRuns) {
  const auto reference = first_samples(400, 0, 16, {});
  const Traced data(23);
  const Stream stream(4, 23, true);
  Loader loader(data, stream, endless_windows(data, stream, {16, 4}, 0), {.workers = 1, .prefetch = 6});
  Random random(7);
  for (size_t at = 0; at < 400; at += 4) {
    loader.set_workers(random.below(8));
    const Batch batch = *loader.next();
    for (size_t i = 0; i < 4; ++i) ASSERT_EQ(values(batch.inputs)[i], reference[2 * (at + i)]);
  }
}

TEST(Loader, SortedWindowsDoNotDependOnWorkersOrPrefetch) {
  Random random(4);
  const test::Ragged data(test::random_lengths(50, random));
  const Stream stream(3, 50, true);
  const auto shapes_and_tokens = [&](Loader::Options options) {
    Loader loader(data, stream, endless_windows(data, stream, {20, 6}, 13), options);
    std::vector<int64_t> all;
    for (int i = 0; i < 12; ++i) {
      const Batch batch = *loader.next();
      for (const int64_t size : batch.inputs.sizes()) all.push_back(size);
      for (const int64_t token : values(batch.inputs)) all.push_back(token);
    }
    return all;
  };
  const auto reference = shapes_and_tokens({.workers = 0});
  for (const int64_t workers : {1, 2, 5}) {
    for (const int64_t prefetch : {1, 4, 9}) {
      EXPECT_EQ(shapes_and_tokens({.workers = workers, .prefetch = prefetch}), reference);
    }
  }
}

TEST(Loader, OnePassEndsAndStaysEnded) {
  const Traced data(10);
  for (const int64_t prefetch : {0, 2}) {
    Loader loader(data, Stream(0, 10, false), one_pass(data, 4), {.prefetch = prefetch});
    EXPECT_EQ(values(loader.next()->inputs), (std::vector<int64_t>{0, 1, 2, 3}));
    EXPECT_EQ(loader.next()->samples, 4);
    EXPECT_EQ(loader.next()->samples, 2);
    EXPECT_FALSE(loader.next());
    EXPECT_FALSE(loader.next());
  }
}

TEST(Loader, ErrorsArriveInTheirPlace) {
  const Traced data(10, 5);
  for (const int64_t workers : {0, 1, 3}) {
    Loader loader(data, Stream(0, 10, false), one_pass(data, 4), {.workers = workers, .prefetch = 3});
    EXPECT_EQ(loader.next()->samples, 4);
    for (int again = 0; again < 2; ++again) {
      const Error error = test::expect_error(ExitCode::kBadData, [&] { loader.next(); });
      EXPECT_TRUE(test::holds(error.what(), "sample 5 "));
      EXPECT_TRUE(test::holds(error.what(), "is broken"));
    }
  }
}

TEST(Loader, WhatTheSourceOfPiecesThrowsTakesThePlaceOfTheNextBatch) {
  const Traced data(10);
  for (const int64_t workers : {0, 1, 3}) {
    const PieceSource failing = [count = int64_t{0}]() mutable -> std::optional<Piece> {
      if (++count == 3) throw std::runtime_error("no cost");
      return consecutive(0, 2);
    };
    Loader loader(data, Stream(0, 10, false), failing, {.workers = workers, .prefetch = 4});
    EXPECT_EQ(loader.next()->samples, 2);
    EXPECT_EQ(loader.next()->samples, 2);
    for (int again = 0; again < 2; ++again) EXPECT_THROW(loader.next(), std::runtime_error);
  }
}

TEST(Loader, PreparesNoMoreThanItMay) {
  const Traced data(1000);
  const Stream stream(0, 1000, false);
  Loader loader(data, stream, endless_windows(data, stream, {8, 8}, 0), {.prefetch = 3});
  loader.wait_until_full();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(data.requests, 3);
}

TEST(Loader, WhatIsMadeOnADeviceIsMadeWhenItIsAskedForByTheThreadThatAsks) {
  class Asked final : public Dataset {
   public:
    int64_t size() const override { return 100; }
    bool on_device() const override { return true; }
    Batch get(c10::ArrayRef<int64_t> indices, const SampleRandom&) const override {
      threads.push_back(std::this_thread::get_id());
      return {torch::zeros({std::ssize(indices)}), {}, std::ssize(indices)};
    }
    mutable std::vector<std::thread::id> threads;
  };
  const Asked data;
  const Stream stream(0, 100, true);
  Loader loader(data, stream, endless_windows(data, stream, {8, 8}, 0), {.workers = 3, .prefetch = 9});
  loader.set_workers(4);
  loader.wait_until_full();
  EXPECT_EQ(data.threads.size(), 0u);
  for (size_t batches = 1; batches <= 3; ++batches) {
    EXPECT_EQ(loader.next()->samples, 8);
    EXPECT_EQ(data.threads.size(), batches);
  }
  for (const std::thread::id thread : data.threads) EXPECT_EQ(thread, std::this_thread::get_id());
}

TEST(Loader, PreparesNoMoreBytesThanItMay) {
  const Traced data(1000);
  // A sample takes 24 bytes, a batch 192: three batches.
  const Stream stream(0, 1000, false);
  Loader loader(data, stream, endless_windows(data, stream, {8, 8}, 0),
                {.workers = 4, .prefetch = 100, .prefetch_bytes = 600});
  loader.wait_until_full();
  EXPECT_EQ(data.requests, 3);
  // One is always made, however little is allowed.
  const Traced few(20);
  Loader narrow(few, Stream(0, 20, false), one_pass(few, 8),
                {.workers = 4, .prefetch = 9, .prefetch_bytes = 1});
  for (const int64_t samples : {8, 8, 4}) EXPECT_EQ(narrow.next()->samples, samples);
  EXPECT_FALSE(narrow.next());
}

int64_t threads_of_this_process() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

// Started, sought, resized, failed and dropped at random: no cycle hangs, crashes, leaves a thread behind, or
// gets another sample than it should.
TEST(Loader, SurvivesRandomCycles) {
  const Traced sound(1000), broken(1000, 500);
  const Stream stream(0, 1000, true);
  Random random(1);
  const int64_t before = threads_of_this_process();
  for (int cycle = test::soaking() ? 10'000 : 500; cycle > 0; --cycle) {
    const bool fails = random.below(4) == 0;
    const int64_t position = random.below(5000);
    const Traced& data = fails ? broken : sound;
    Loader loader(
        data, stream, endless_windows(data, stream, {64, 16}, position),
        {.workers = random.below(6), .prefetch = random.below(6), .prefetch_bytes = random.below(3) * 600});
    int64_t at = position;
    for (int64_t n = random.below(8); n > 0; --n) {
      if (random.below(6) == 0) loader.set_workers(random.below(6));
      const Stream::Draw drawn = stream.draw(consecutive(at, 16));
      const bool holds_broken = std::ranges::find(drawn.indices, 500) != drawn.indices.end();
      try {
        if (random.below(6) == 0) loader.wait_until_full();
        ASSERT_EQ(values(loader.next()->inputs), drawn.indices);
        ASSERT_FALSE(fails && holds_broken);
      } catch (const Error&) {
        ASSERT_TRUE(fails);
        break;
      }
      at += 16;
    }
  }
  // A thread that was joined may stand in /proc for a moment longer; one that was not stays.
  test::wait_until([&] { return threads_of_this_process() <= before; });
}

}  // namespace
}  // namespace autotrain
