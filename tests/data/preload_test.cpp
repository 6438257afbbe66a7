#include "data/preload.h"

#include <mutex>
#include <set>

#include "base/interrupt.h"
#include "data/datasets.h"
#include "data/held_tokens.h"
#include "data/loader.h"
#include "support/images.h"
#include "support/support.h"

namespace autotrain {
namespace {

namespace fs = std::filesystem;
using test::TemporaryFolder;

Preloadable& preloadable(Dataset& data) {
  return dynamic_cast<Preloadable&>(data);
}

std::unique_ptr<Dataset> open(const TemporaryFolder& folder, const AugmentRecipe& augment = {}) {
  return make_dataset(
      {Choice{"image_folder", {{"root", folder.path().string()}, {"size", std::vector<int64_t>{6, 6}}}},
       augment});
}

void fill(const TemporaryFolder& folder, int64_t images) {
  for (int64_t i = 0; i < images; ++i) {
    folder.write((i % 2 == 0 ? "a/" : "b/") + std::to_string(i) + ".jpg",
                 test::jpeg_file(test::gradient_image(9 + i % 5, 12 + i % 3, 3)));
  }
}

TEST(Preload, EveryItemIsVisitedOnceWhateverTheThreads) {
  for (const int64_t threads : {1, 2, 7}) {
    std::mutex mutex;
    std::multiset<int64_t> seen;
    visit_all(100, {.threads = threads}, [&](int64_t i) {
      const std::lock_guard lock(mutex);
      seen.insert(i);
    });
    EXPECT_EQ(seen.size(), 100U);
    EXPECT_EQ(std::set<int64_t>(seen.begin(), seen.end()).size(), 100U);
  }
}

TEST(Preload, AnErrorEndsItAndReachesTheCaller) {
  std::atomic<int64_t> visited = 0;
  const auto visit = [&](int64_t i) {
    ++visited;
    if (i == 5) throw std::runtime_error("the sixth");
  };
  EXPECT_THROW(visit_all(1'000'000, {.threads = 3}, visit), std::runtime_error);
  EXPECT_LT(visited, 1'000'000);
}

// The files are gone: what the batches are made of is in memory.
TEST(Preload, NoFileIsReadAfterwards) {
  for (const bool random_crop : {false, true}) {
    const TemporaryFolder folder;
    fill(folder, 8);
    AugmentRecipe augment{.flip = true};
    if (random_crop) augment.random_resized_crop = AreaShare{};
    const auto data = open(folder, augment);
    preloadable(*data).preload({.threads = 2});
    fs::remove_all(folder.path() / "a");
    fs::remove_all(folder.path() / "b");
    const std::vector<int64_t> indices = {7, 0, 3}, epochs = {1, 1, 2};
    EXPECT_EQ(data->get(indices, SampleRandom(1, indices, epochs)).samples, 3);
  }
}

TEST(Preload, ABadSampleStaysItsError) {
  for (const bool random_crop : {false, true}) {
    const TemporaryFolder folder;
    fill(folder, 6);
    folder.write("a/2.jpg", "no image");
    AugmentRecipe augment;
    if (random_crop) augment.random_resized_crop = AreaShare{};
    const auto plain = open(folder, augment), held = open(folder, augment);
    preloadable(*held).preload({.threads = 2});
    const std::vector<int64_t> good = {0, 2, 5}, bad = {0, 1}, epochs = {0, 0, 0};
    EXPECT_TRUE(held->get(good, SampleRandom(1, good, epochs))
                    .inputs.equal(plain->get(good, SampleRandom(1, good, epochs)).inputs));
    const auto message = [&](const Dataset& data) {
      return std::string(test::expect_error(ExitCode::kBadData, [&] {
                           data.get(bad, SampleRandom(1, bad, epochs));
                         }).what());
    };
    EXPECT_EQ(message(*held), message(*plain));
  }
}

// The whole path: the same batches for any number of workers, held or not, from any place of the stream.
TEST(Preload, ALoaderGivesTheSameBatchesWithAndWithout) {
  const TemporaryFolder folder;
  fill(folder, 23);
  const auto plain = open(folder, {.flip = true}), held = open(folder, {.flip = true});
  preloadable(*held).preload({.threads = 2});
  for (const int64_t position : {0, 17, 300}) {
    const auto batches = [&](const Dataset& data, int64_t workers) {
      const Stream stream(5, data.size(), true);
      Loader loader(data, stream, endless_windows(data, stream, {10, 4}, position),
                    {.workers = workers, .prefetch = workers + 1});
      std::vector<torch::Tensor> all;
      for (int i = 0; i < 9; ++i) all.push_back(loader.next()->inputs);
      return torch::cat(all);
    };
    const torch::Tensor expected = batches(*plain, 0);
    for (const int64_t workers : {0, 1, 2, 5}) {
      EXPECT_TRUE(batches(*held, workers).equal(expected)) << workers;
      EXPECT_TRUE(batches(*plain, workers).equal(expected)) << workers;
    }
  }
}

// Token i is i modulo the vocabulary; `broken` cannot be read.
class Counting final : public TokenSource {
 public:
  Counting(int64_t size, int64_t vocabulary, int64_t broken = -1)
      : size_(size), vocabulary_(vocabulary), broken_(broken) {}
  int64_t size() const override { return size_; }
  int64_t vocabulary() const override { return vocabulary_; }
  void read(int64_t first, int64_t count, int64_t* out) const override {
    ++reads;
    if (broken_ >= first && broken_ < first + count) throw Error(ExitCode::kBadData, "token", "is torn");
    for (int64_t i = 0; i < count; ++i) out[i] = (first + i) * 7919 % vocabulary_;
  }
  mutable std::atomic<int64_t> reads = 0;

 private:
  int64_t size_, vocabulary_, broken_;
};

TEST(HeldTokens, AreTheSourcesInEveryWidth) {
  constexpr int64_t kSize = (5 << 19) + 3;  // two chunks and a half
  for (const auto& [vocabulary, bytes] : {std::pair<int64_t, int64_t>{256, 1}, {257, 2}, {65537, 4}}) {
    auto source = std::make_unique<Counting>(kSize, vocabulary);
    const Counting& counting = *source;
    HeldTokens held(std::move(source));
    EXPECT_EQ(held.ram_bytes(), kSize * bytes);
    held.hold({.threads = 2});
    EXPECT_EQ(held.ram_bytes(), 0);
    const int64_t reads = counting.reads;
    for (const auto& [first, count] :
         {std::pair<int64_t, int64_t>{0, 5}, {(1 << 20) - 2, 5}, {kSize - 4, 4}, {9, 0}}) {
      std::vector<int64_t> expected(static_cast<size_t>(count)), got = expected;
      held.read(first, count, got.data());
      EXPECT_EQ(counting.reads, reads) << "nothing is read any more";
      Counting(kSize, vocabulary).read(first, count, expected.data());
      EXPECT_EQ(got, expected);
    }
  }
}

TEST(HeldTokens, ATokenThatCannotBeReadStaysAnErrorAndTheRestIsHeld) {
  constexpr int64_t kSize = 2 << 20;
  HeldTokens held(std::make_unique<Counting>(kSize, 50, kSize - 1));
  held.hold({});
  std::vector<int64_t> out(10);
  held.read(100, 10, out.data());
  EXPECT_EQ(out[1], 101 * 7919 % 50);
  EXPECT_THROW(held.read(kSize - 5, 5, out.data()), Error);
}

}  // namespace
}  // namespace autotrain
