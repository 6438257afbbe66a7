#include "data/token_text.h"

#include "support/support.h"

namespace autotrain {
namespace {

using test::expect_error;
using test::holds;

using TokenList = std::vector<int64_t>;

TEST(TokenText, OfTextIsItsBytes) {
  const TokenText how = token_text_of({"text", {}});
  EXPECT_EQ(tokens_of(how, "aé", 256, "--prompt"), (TokenList{97, 0xc3, 0xa9}));
  EXPECT_EQ(text_of_tokens(how, {97, 0xc3, 0xa9}), "aé");
}

TEST(TokenText, OfDocumentsBeginsWithTheBoundary) {
  const TokenText how = token_text_of({"documents", {}});
  EXPECT_EQ(tokens_of(how, "a", 257, "--prompt"), (TokenList{256, 97}));
  EXPECT_EQ(tokens_of(how, "", 257, "--prompt"), (TokenList{256}));
  EXPECT_EQ(text_of_tokens(how, {256, 97, 256}), "a");
}

TEST(TokenText, OfOtherTokensIsTheirNumbers) {
  const TokenText how = token_text_of({"tokens", {}});
  EXPECT_EQ(tokens_of(how, " 3, 0\n12 ", 13, "--prompt"), (TokenList{3, 0, 12}));
  EXPECT_EQ(text_of_tokens(how, {3, 0, 12}), "3 0 12");
}

TEST(TokenText, WhatIsNoTokenIsRefusedByName) {
  const TokenText how = token_text_of({"tokens", {}});
  const auto error_of = [&](const char* text) {
    return std::string(expect_error(ExitCode::kUsage, [&] { tokens_of(how, text, 13, "--prompt"); }).what());
  };
  EXPECT_TRUE(holds(error_of("3 13"), "the token 13 is not below the vocabulary of 13"));
  EXPECT_TRUE(holds(error_of("3 -1"), "-1"));
  EXPECT_TRUE(holds(error_of("3 cat"), "\"cat\" is no number of a token"));
  EXPECT_TRUE(holds(error_of(" "), "is empty"));
  EXPECT_TRUE(
      holds(expect_error(ExitCode::kUsage, [] { tokens_of({.bytes = true}, "", 256, "--prompt"); }).what(),
            "is empty"));
}

}  // namespace
}  // namespace autotrain
