#include "data/datasets.h"
#include "support/npy.h"
#include "support/samples.h"
#include "support/support.h"

namespace autotrain {
namespace {

using test::bytes_of_numbers;
using test::samples;
using test::TemporaryFolder;

Choice tokens(const std::filesystem::path& files, int64_t context, std::map<std::string, Value> more = {}) {
  more["files"] = std::vector<std::string>{files.string()};
  more["context"] = context;
  more.try_emplace("vocabulary", int64_t{70'000});
  return {"tokens", std::move(more)};
}

template <class Token>
std::string bytes_from(Token first, size_t count) {
  std::vector<Token> all(count);
  for (Token& token : all) token = first++;
  return bytes_of_numbers(all);
}

TEST(Tokens, WindowsSpanFilesOfEitherType) {
  const TemporaryFolder folder;
  folder.write("1.bin", bytes_from<uint16_t>(60'000, 5));
  folder.write("2.bin", "");
  folder.write("3.bin", bytes_from<uint16_t>(60'005, 6));
  folder.write("wide", bytes_from<uint32_t>(60'000, 11));
  for (const auto& [files, dtype] : {std::pair{"*.bin", "uint16"}, {"wide", "uint32"}}) {
    const Choice choice = tokens(folder / files, 4, {{"stride", int64_t{3}}, {"dtype", std::string(dtype)}});
    const auto data = make_dataset({choice});
    ASSERT_EQ(data->size(), 3) << files;
    EXPECT_EQ(data->info().vocabulary, 70'000);
    EXPECT_EQ(data->info().classes, 70'000);
    const Batch batch = samples(*data, {2, 0, 1});
    const torch::Tensor first = torch::tensor({60'006, 60'000, 60'003}).unsqueeze(1);
    EXPECT_TRUE(batch.inputs.equal(first + torch::arange(4)));
    EXPECT_TRUE(batch.targets.equal(batch.inputs + 1));
  }
}

TEST(Tokens, SplitsShareNoToken) {
  const TemporaryFolder folder;
  const auto path = folder.write("a.bin", bytes_from<uint16_t>(0, 1000));
  const auto largest = [&](const char* split) {
    const auto data =
        make_dataset({tokens(path, 10, {{"split", std::string(split)}, {"validation_share", 0.3}})});
    const Batch batch = test::all_samples(*data);
    return std::pair(batch.inputs.min().item<int64_t>(), batch.targets.max().item<int64_t>());
  };
  EXPECT_EQ(largest("train"), std::pair(int64_t{0}, int64_t{690}));
  EXPECT_EQ(largest("validation"), std::pair(int64_t{700}, int64_t{990}));
}

TEST(Tokens, ATokenBeyondTheVocabularyIsABadSample) {
  const TemporaryFolder folder;
  folder.write("1.bin", bytes_from<uint16_t>(0, 7));
  folder.write("2.bin", bytes_of_numbers<uint16_t>({7, 8, 9, 50, 11, 12, 13}));
  const auto data = make_dataset({tokens(folder / "*.bin", 4, {{"vocabulary", int64_t{50}}})});
  EXPECT_NO_THROW(samples(*data, {0, 1}));
  const Error error = test::expect_error(ExitCode::kBadData, [&] { samples(*data, {0, 2}); });
  EXPECT_TRUE(test::holds(error.where(), "sample 2: "));
  EXPECT_TRUE(test::holds(error.where(), "2.bin: offset 6"));
  EXPECT_TRUE(test::holds(error.problem(), "50 is not below the vocabulary of 50"));
}

TEST(Tokens, ALastTargetBeyondTheVocabularyIsFoundToo) {
  const TemporaryFolder folder;
  const auto path = folder.write("a.bin", bytes_from<uint32_t>(0, 5));
  const auto data =
      make_dataset({tokens(path, 4, {{"vocabulary", int64_t{4}}, {"dtype", std::string("uint32")}})});
  const Error error = test::expect_error(ExitCode::kBadData, [&] { samples(*data, {0}); });
  EXPECT_TRUE(test::holds(error.where(), "a.bin: offset 16"));
}

TEST(Tokens, WhatCannotBeReadSaysWhy) {
  const TemporaryFolder folder;
  folder.write("odd", "abc");
  const auto whole = folder.write("short", "abcd").string();
  test::expect_error(ExitCode::kMissingFile, [&] { make_dataset({tokens(folder / "none*", 4)}); });
  const Error odd =
      test::expect_error(ExitCode::kBadData, [&] { make_dataset({tokens(folder / "odd", 1)}); });
  EXPECT_TRUE(test::holds(odd.what(), "3 bytes, no whole number of 2-byte tokens"));
  test::expect_error(ExitCode::kBadData, [&] { make_dataset({tokens(whole, 2)}); });
  const Choice no_vocabulary{"tokens", {{"files", std::vector<std::string>{whole}}}};
  test::expect_error(ExitCode::kBadRecipe, [&] { make_dataset({no_vocabulary}); });
  test::expect_error(ExitCode::kBadRecipe, [] {
    make_dataset({Choice{"tokens", {{"vocabulary", int64_t{4}}}}});
  });
}

}  // namespace
}  // namespace autotrain
