#include "comm/message.h"

#include "comm/gathered.h"

#include <gtest/gtest.h>

namespace autotrain {
namespace {

TEST(Message, WhatIsWrittenIsReadAgain) {
  const Message failed{.note = {1, "two", 3.5}, .host = "b", .failure = Message::Shared{2, "no memory"}};
  const Message read = read_message(write_message(failed));
  EXPECT_EQ(read.note, failed.note);
  EXPECT_EQ(read.host, "b");
  ASSERT_TRUE(read.failure);
  EXPECT_EQ(read.failure->kind, 2);
  EXPECT_EQ(read.failure->what, "no memory");

  const Message ended =
      read_message(write_message({.end = Error(ExitCode::kBadData, "x.png", "torn", "mend it")}));
  ASSERT_TRUE(ended.end);
  EXPECT_EQ(ended.end->code(), ExitCode::kBadData);
  EXPECT_EQ(ended.end->where(), "x.png");
  EXPECT_EQ(ended.end->hint(), "mend it");
}

TEST(Message, WhatNoRankHasWrittenIsRefused) {
  for (const std::string text : {
           "",
           "GET / HTTP/1.1",
           "[]",
           R"({"host":"b"})",
           R"({"note":null,"host":7})",
           R"({"note":null,"failure":[1]})",
           R"({"note":null,"failure":[1.5,"no memory"]})",
           R"({"note":null,"failure":[4294967296,"no memory"]})",
           R"({"note":null,"end":{"code":6e37,"where":"","what":"","hint":""}})",
           R"({"note":null,"end":{"code":18446744073709551615,"where":"","what":"","hint":""}})",
           R"({"note":null,"end":{"code":70,"where":"","what":""}})",
       }) {
    try {
      read_message(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kInterrupted) << text;
    }
  }
}

std::vector<uint8_t> bytes_of(const std::string& text) {
  return {text.begin(), text.end()};
}

TEST(Gathered, TextsOfAllKindsComeBackByRank) {
  const std::map<int64_t, std::string> texts = {
      {0, ""}, {1, "two\nlines"}, {2, "3 4\nabc"}, {11, std::string(10'000, 'x')}};
  std::vector<uint8_t> value;
  for (const int64_t rank : {2, 11, 0, 1}) {
    for (const uint8_t byte : gathered_part(rank, texts.at(rank))) value.push_back(byte);
  }
  EXPECT_EQ(read_gathered(value, 12), texts);
}

TEST(Gathered, WhatNoRankHasWrittenEndsTheReading) {
  for (const std::string rubbish : {"", "7", "\n", "1 2", "4 1\nx", "-1 1\nx", "1 2\nx", "1 -1\nx",
                                    "1 99999999999999999999\nx", "one 1\nx"}) {
    const std::map<int64_t, std::string> first = {{0, "a"}};
    EXPECT_EQ(read_gathered(bytes_of("0 1\na" + rubbish), 4), first) << rubbish;
  }
}

}  // namespace
}  // namespace autotrain
