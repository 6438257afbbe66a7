#include "base/random.h"
#include "data/datasets.h"
#include "support/samples.h"
#include "support/support.h"

namespace autotrain {
namespace {

using test::samples;
using test::TemporaryFolder;

constexpr int64_t kBoundary = 256;

Choice documents(const std::filesystem::path& files, int64_t context,
                 std::map<std::string, Value> more = {}) {
  more["files"] = std::vector<std::string>{files.string()};
  more["context"] = context;
  more.try_emplace("multiple_of", int64_t{1});
  return {"documents", std::move(more)};
}

Choice unit(const std::filesystem::path& files, const std::string& document) {
  return documents(files, 100, {{"document", document}});
}

// The documents as their targets say them; parts of one are joined.
std::vector<std::string> read_back(const Choice& choice) {
  const auto data = make_dataset({choice});
  std::vector<std::string> read = {""};
  for (int64_t i = 0; i < data->size(); ++i) {
    const torch::Tensor targets = samples(*data, {i}).targets[0];
    for (int64_t j = 0; j < targets.size(0); ++j) {
      const auto token = targets[j].item<int64_t>();
      if (token == kBoundary) read.emplace_back();
      if (token >= 0 && token < kBoundary) read.back().push_back(static_cast<char>(token));
    }
  }
  EXPECT_EQ(read.back(), "") << "every document has its end";
  read.pop_back();
  return read;
}

TEST(Documents, ASampleIsADocumentBetweenBoundariesPaddedToTheLongest) {
  const TemporaryFolder folder;
  const auto data = make_dataset({documents(folder.write("a.txt", "ab\nc\n"), 10)});
  ASSERT_EQ(data->size(), 2);
  EXPECT_EQ(data->cost(0), 3);
  EXPECT_EQ(data->cost(1), 2);
  const Batch batch = samples(*data, {1, 0});
  EXPECT_TRUE(batch.inputs.equal(torch::tensor({{256, 99, 256}, {256, 97, 98}})));
  EXPECT_TRUE(batch.targets.equal(torch::tensor({{99, 256, -100}, {97, 98, 256}})));
  EXPECT_EQ(samples(*data, {1}).inputs.size(1), 2) << "alone it needs no padding";
}

TEST(Documents, LongOnesBecomeSeveralSamplesThatPredictEveryByteOnce) {
  const TemporaryFolder folder;
  const auto data = make_dataset({documents(folder.write("a.txt", "abcdefg"), 3)});
  ASSERT_EQ(data->size(), 3);
  const Batch batch = samples(*data, {0, 1, 2});
  EXPECT_TRUE(batch.inputs.equal(torch::tensor({{256, 97, 98}, {99, 100, 101}, {102, 103, 256}})));
  EXPECT_TRUE(batch.targets.equal(torch::tensor({{97, 98, 99}, {100, 101, 102}, {103, 256, -100}})));
}

TEST(Documents, RandomOnesAreReadBackForAnyContext) {
  const TemporaryFolder folder;
  Random random(1);
  for (int round = 0; round < 60; ++round) {
    std::vector<std::string> lines(static_cast<size_t>(1 + random.below(8)));
    for (std::string& line : lines) {
      for (int64_t n = 1 + random.below(30); n > 0; --n) {
        const auto byte = static_cast<char>(random.below(256));
        line.push_back(byte == '\n' || byte == '\r' ? '\0' : byte);
      }
    }
    std::string text;
    for (const std::string& line : lines) {
      text += line + (round % 2 == 0 ? "\n" : "\r\n");
      for (int64_t n = random.below(3); n > 0; --n) text += round % 2 == 0 ? "\n" : "\r\n";
    }
    const Choice choice =
        documents(folder.write("a.txt", text), 1 + random.below(40), {{"multiple_of", 1 + random.below(9)}});
    EXPECT_EQ(read_back(choice), lines) << round;
  }
}

TEST(Documents, AreLinesParagraphsOrFiles) {
  const TemporaryFolder folder;
  folder.write("1.txt", "\n\na\nb\r\n\r\n\nc");
  folder.write("2.txt", "");
  folder.write("3.txt", "d\n \t\ne\n");
  const auto files = folder / "*.txt";
  EXPECT_EQ(read_back(unit(files, "line")), (std::vector<std::string>{"a", "b", "c", "d", " \t", "e"}));
  EXPECT_EQ(read_back(unit(files, "paragraph")), (std::vector<std::string>{"a\nb", "c", "d", "e"}));
  EXPECT_EQ(read_back(unit(files, "file")), (std::vector<std::string>{"\n\na\nb\r\n\r\n\nc", "d\n \t\ne\n"}));
}

TEST(Documents, PaddingGoesToAMultipleButNotBeyondTheContext) {
  const TemporaryFolder folder;
  const auto path = folder.write("a.txt", "a\nabcdef\nabcdefghij\n");
  const auto data = make_dataset({documents(path, 10, {{"multiple_of", int64_t{4}}})});
  EXPECT_EQ(samples(*data, {0}).inputs.size(1), 4);
  EXPECT_EQ(samples(*data, {0, 1}).inputs.size(1), 8);
  EXPECT_EQ(samples(*data, {2}).inputs.size(1), 10);
}

TEST(Documents, SplitsShareNone) {
  const TemporaryFolder folder;
  const auto path = folder.write("a.txt", "aaaa\nbbbb\ncccc\ndddd\n");
  const auto part = [&](const char* split) {
    return read_back(documents(path, 2, {{"split", std::string(split)}, {"validation_share", 0.3}}));
  };
  EXPECT_EQ(part("train"), (std::vector<std::string>{"aaaa", "bbbb"}));
  EXPECT_EQ(part("validation"), (std::vector<std::string>{"cccc", "dddd"}));
}

TEST(Documents, WhatCannotBeReadSaysWhy) {
  const TemporaryFolder folder;
  test::expect_error(ExitCode::kMissingFile, [&] { make_dataset({documents(folder / "none", 4)}); });
  test::expect_error(ExitCode::kMissingFile, [&] { make_dataset({documents(folder.path(), 4)}); });
  test::expect_error(ExitCode::kBadRecipe, [] { make_dataset({Choice{"documents", {}}}); });
  for (const char* const text : {"", "\n", "\r\n\n\r\n"}) {
    const auto path = folder.write("empty.txt", text);
    const Error error = test::expect_error(ExitCode::kBadData, [&] { make_dataset({documents(path, 4)}); });
    EXPECT_TRUE(test::holds(error.what(), "none of the 0 documents of 1 files"));
  }
  const auto hint_of = [](const std::filesystem::path& file, const char* document) {
    const Error error = test::expect_error(ExitCode::kBadData, [&] {
      make_dataset(
          {documents(file, 4, {{"split", std::string("train")}, {"document", std::string(document)}})});
    });
    EXPECT_TRUE(test::holds(error.problem(), "none of the 1 documents"));
    return error.hint();
  };
  const auto one = folder.write("one.txt", "abc"), odd = folder.write("odd.txt", "abc\rdef\rghi\r");
  EXPECT_TRUE(test::holds(hint_of(one, "line"), "set split: all or another validation_share"));
  EXPECT_FALSE(test::holds(hint_of(one, "line"), "document: line"));
  EXPECT_TRUE(test::holds(hint_of(one, "paragraph"), "document: line"));
  EXPECT_TRUE(test::holds(hint_of(odd, "line"), "odd.txt ends its lines by carriage returns alone"));
}

TEST(Documents, LinesThatEndByCarriageReturnsAloneAreDoubted) {
  const TemporaryFolder folder;
  const auto doubts = [](const Choice& choice) {
    const auto data = make_dataset({choice});
    return look_at({choice}, *data, nullptr, {.depth = LookDepth::kStart}).doubts;
  };
  const auto odd = folder.write("odd.txt", "abc\rdef\r"), even = folder.write("even.txt", "abc\r\ndef\r\n");
  ASSERT_EQ(doubts(unit(odd, "line")).size(), 1);
  EXPECT_TRUE(test::holds(doubts(unit(odd, "line"))[0].kind, "carriage returns alone"));
  EXPECT_TRUE(doubts(unit(odd, "file")).empty());
  EXPECT_TRUE(doubts(unit(even, "line")).empty());
}

TEST(Documents, FilesOfAFormatAreDoubted) {
  const TemporaryFolder folder;
  const Choice choice = unit(folder.write("a.jsonl", "{\"text\": \"one\"}\n{\"text\": \"two\"}\n"), "line");
  const auto data = make_dataset({choice});
  const DataLook look = look_at({choice}, *data, nullptr, {.depth = LookDepth::kStart});
  ASSERT_EQ(look.doubts.size(), 1U);
  EXPECT_TRUE(test::holds(look.doubts[0].places[0], "a.jsonl: is JSON"));
  EXPECT_TRUE(test::holds(look.doubts[0].cure, "jq"));
}

TEST(Documents, OtherDataArePaddedAsTheTrainingDataAre) {
  DataRecipe data;
  data.train = documents("a.txt", 32, {{"multiple_of", int64_t{32}}});
  data.validation = Choice{"documents", {{"files", std::vector<std::string>{"b.txt"}}}};
  complete_other_data(data);
  EXPECT_EQ(std::get<int64_t>(data.validation->parameters.at("multiple_of")), 32);
}

}  // namespace
}  // namespace autotrain
