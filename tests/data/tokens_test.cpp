#include <algorithm>
#include <cmath>

#include "base/random.h"
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
  more.try_emplace("vocabulary", int64_t{65'536});
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
    EXPECT_EQ(data->info().vocabulary, 65'536);
    EXPECT_EQ(data->info().classes, 65'536);
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

// Zipf-like numbers below a bound, as tokens are.
template <class Token>
std::string language(size_t count, uint32_t below) {
  Random random(7);
  std::vector<Token> all(count);
  for (Token& token : all) {
    const double share = static_cast<double>(random.below(1'000'000)) / 1e6;
    token = static_cast<Token>(std::pow(static_cast<double>(below), share) - 1);
  }
  return bytes_of_numbers(all);
}

std::string swapped(std::string bytes, size_t width) {
  for (size_t at = 0; at + width <= bytes.size(); at += width)
    std::reverse(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                 bytes.begin() + static_cast<std::ptrdiff_t>(at + width));
  return bytes;
}

struct OtherTokens {
  const char* name;
  std::string content;
  std::string dtype;
  int64_t vocabulary;
  std::string what, cure;
};

class TokensOfOtherKinds : public testing::TestWithParam<OtherTokens> {};

TEST_P(TokensOfOtherKinds, AreRefusedByName) {
  const TemporaryFolder folder;
  const OtherTokens& o = GetParam();
  const auto path = folder.write("a.bin", o.content);
  const Error error = test::expect_error(ExitCode::kBadData, [&] {
    make_dataset({tokens(path, 16, {{"vocabulary", o.vocabulary}, {"dtype", o.dtype}})});
  });
  EXPECT_TRUE(test::holds(error.what(), o.what)) << error.what();
  EXPECT_TRUE(test::holds(error.what(), o.cure)) << error.what();
  EXPECT_TRUE(test::holds(error.where(), "a.bin"));
}

INSTANTIATE_TEST_SUITE_P(
    Each, TokensOfOtherKinds,
    testing::Values(
        OtherTokens{"Wider", language<uint32_t>(4000, 50'000), "uint16", 50'000, "tokens of 4 bytes",
                    "dtype: uint32"},
        OtherTokens{"WiderAndLarger", language<uint32_t>(4000, 120'000), "uint16", 65'536, "at most 15",
                    "dtype: uint32"},
        OtherTokens{"Int64As16", language<uint64_t>(4000, 50'000), "uint16", 50'000, "tokens of 8 bytes",
                    "int64"},
        OtherTokens{"Int64As32", language<uint64_t>(4000, 120'000), "uint32", 120'000, "tokens of 8 bytes",
                    "int64"},
        OtherTokens{"WiderAndSwapped", swapped(language<uint32_t>(4000, 50'000), 4), "uint16", 50'000,
                    "big endian", "'>u4'"},
        OtherTokens{"Swapped", swapped(language<uint16_t>(4000, 500), 2), "uint16", 500, "big endian",
                    "'>u2'"},
        OtherTokens{"Swapped32", swapped(language<uint32_t>(4000, 120'000), 4), "uint32", 120'000,
                    "big endian", "'>u4'"},
        OtherTokens{"Narrower", language<uint16_t>(4000, 50'000), "uint32", 50'000, "tokens of 2 bytes",
                    "dtype: uint16"},
        OtherTokens{"Bytes", language<uint8_t>(4000, 65), "uint16", 65, "tokens of 1 byte", "'uint8'"},
        OtherTokens{"Text",
                    std::string(40, 'a') + "\n\xc3\xa4\xe2\x82\xac and so on, or something like it, so.",
                    "uint16", 50'000, "is text", "dataset: text"},
        OtherTokens{"Utf16", "\xff\xfe" + language<uint16_t>(4000, 200), "uint16", 65'536, "text in UTF-16",
                    "iconv"},
        OtherTokens{"Npy", test::npy_file(test::npy_dictionary("<u2", "(4,)"), "abcdefgh"), "uint16", 50'000,
                    "a .npy file", "tofile"},
        OtherTokens{"LlmC", std::string("\x88\xd8\x34\x01", 4) + std::string(1020, '\0'), "uint16", 50'257,
                    "llm.c", "tail -c +1025"},
        OtherTokens{"Gzip", "\x1f\x8b" + std::string(62, 'x'), "uint16", 50'000, "gzip", "unpack"}),
    [](const auto& instance) { return std::string(instance.param.name); });

TEST(Tokens, ThoseOfALanguageAreTaken) {
  const TemporaryFolder folder;
  for (const int64_t vocabulary : {64, 256, 300, 50'257, 65'536}) {
    const auto below = static_cast<uint32_t>(vocabulary);
    EXPECT_NO_THROW(make_dataset(
        {tokens(folder.write("a", language<uint16_t>(40'000, below)), 16, {{"vocabulary", vocabulary}})}));
    EXPECT_NO_THROW(make_dataset({tokens(folder.write("b", language<uint32_t>(40'000, below)), 16,
                                         {{"vocabulary", vocabulary}, {"dtype", std::string("uint32")}})}));
  }
}

TEST(Tokens, AVocabularyThatTheTypeCannotHoldIsRefused) {
  const TemporaryFolder folder;
  const auto path = folder.write("a.bin", language<uint16_t>(4000, 60'000));
  const Error error = test::expect_error(ExitCode::kBadRecipe, [&] {
    make_dataset({tokens(path, 16, {{"vocabulary", int64_t{119'547}}})});
  });
  EXPECT_TRUE(test::holds(error.what(), "uint16 holds tokens below 65,536")) << error.what();
}

// ------------------------------------------------------------------ looks

DataLook look_of(const Choice& choice, LookDepth depth, const Choice* train = nullptr) {
  const auto data = make_dataset({.choice = choice});
  const auto training = train == nullptr ? nullptr : make_dataset({.choice = *train});
  return look_at({.choice = choice, .training = train}, *data, training.get(),
                 {.depth = depth, .threads = 2});
}

const Doubt* doubt_of(const DataLook& look, const std::string& kind) {
  const auto found = std::ranges::find_if(
      look.doubts, [&](const Doubt& d) { return d.kind.find(kind) != std::string::npos; });
  return found == look.doubts.end() ? nullptr : &*found;
}

TEST(TokensLook, CountsThoseBeyondTheVocabularyAndTheCommonest) {
  const TemporaryFolder folder;
  std::vector<uint16_t> all(150'000, 3);
  for (size_t i = 0; i < 60'000; ++i) all[i] = static_cast<uint16_t>(i % 90);
  for (size_t i = 120'000; i < 120'020; ++i) all[i] = 100;
  const Choice choice =
      tokens(folder.write("a.bin", bytes_of_numbers(all)), 16, {{"vocabulary", int64_t{100}}});
  const DataLook whole = look_of(choice, LookDepth::kWhole), start = look_of(choice, LookDepth::kStart);
  const Doubt* const beyond = doubt_of(whole, "not below the vocabulary");
  ASSERT_NE(beyond, nullptr);
  EXPECT_EQ(beyond->count, 20);
  EXPECT_TRUE(beyond->stops);
  EXPECT_EQ(beyond->places.size(), Doubt::kMostPlaces);
  EXPECT_TRUE(test::holds(beyond->places[0], "a.bin: offset 240000: 100"));
  ASSERT_NE(doubt_of(whole, "more than half"), nullptr);
  EXPECT_TRUE(test::holds(doubt_of(whole, "more than half")->places[0], "token 3"));
  EXPECT_EQ(doubt_of(start, "not below the vocabulary"), nullptr);  // it reads the beginning
  EXPECT_EQ(doubt_of(start, "more than half"), nullptr);
}

TEST(TokensLook, DoubtsSwappedBytesAndFilesReadTwice) {
  const TemporaryFolder folder;
  const Choice swap = tokens(folder.write("s.bin", swapped(language<uint16_t>(20'000, 50'000), 2)), 16);
  EXPECT_NE(doubt_of(look_of(swap, LookDepth::kStart), "swapped"), nullptr);
  const auto path = folder.write("a.bin", language<uint16_t>(20'000, 50'000));
  const Choice all = tokens(path, 16), rest = tokens(path, 16, {{"split", std::string("validation")}}),
               first = tokens(path, 16, {{"split", std::string("train")}});
  EXPECT_TRUE(look_of(all, LookDepth::kStart).doubts.empty());
  EXPECT_NE(doubt_of(look_of(rest, LookDepth::kStart, &all), "read, too"), nullptr);
  EXPECT_TRUE(look_of(rest, LookDepth::kStart, &first).doubts.empty());
  // A part of other files, as where --set names them beside the split of the run's recipe.
  const auto other = folder.write("b.bin", language<uint16_t>(19'000, 50'000));
  const Choice part = tokens(other, 16, {{"split", std::string("validation")}});
  EXPECT_NE(doubt_of(look_of(part, LookDepth::kStart, &first), "a part of another file"), nullptr);
  EXPECT_TRUE(look_of(tokens(other, 16), LookDepth::kStart, &first).doubts.empty());
  // Copies are the same files.
  const auto copy = folder.write("c.bin", language<uint16_t>(20'000, 50'000));
  EXPECT_NE(doubt_of(look_of(tokens(copy, 16), LookDepth::kStart, &all), "read, too"), nullptr);
  const Choice end = tokens(copy, 16, {{"split", std::string("validation")}});
  EXPECT_TRUE(look_of(end, LookDepth::kStart, &first).doubts.empty());
}

}  // namespace
}  // namespace autotrain
