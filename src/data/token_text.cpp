#include "data/token_text.h"

#include <algorithm>

#include "autotrain/error.h"
#include "base/text.h"

namespace autotrain {
namespace {

std::vector<int64_t> numbers_in(std::string_view text, int64_t vocabulary, const std::string& where) {
  std::string blanks(text);
  std::ranges::replace_if(
      blanks, [](char c) { return c == ',' || c == '\n' || c == '\t' || c == '\r'; }, ' ');
  std::vector<int64_t> tokens;
  for (const std::string& word : split(blanks, ' ')) {
    if (word.empty()) continue;
    int64_t token = -1;
    if (!parse_integer(word, token)) {
      throw Error(ExitCode::kUsage, where, quote(word) + " is no number of a token",
                  "this run learned from numbers of tokens: give those of your tokenizer, as 12,7,1904");
    }
    if (token < 0 || token >= vocabulary) {
      throw Error(ExitCode::kUsage, where,
                  cat("the token ", token, " is not below the vocabulary of ", vocabulary),
                  "give tokens of the tokenizer that the run's data were made with");
    }
    tokens.push_back(token);
  }
  return tokens;
}

}  // namespace

TokenText token_text_of(const Choice& data) {
  if (data.name == "documents") return {.bytes = true, .boundary = kDocumentBoundary};
  return {.bytes = data.name == "text"};
}

std::vector<int64_t> tokens_of(const TokenText& how, std::string_view text, int64_t vocabulary,
                               const std::string& where) {
  std::vector<int64_t> tokens;
  if (how.boundary) tokens.push_back(*how.boundary);
  if (how.bytes) {
    for (const char c : text) tokens.push_back(static_cast<uint8_t>(c));
  } else {
    tokens = numbers_in(text, vocabulary, where);
  }
  if (!tokens.empty()) return tokens;
  throw Error(ExitCode::kUsage, where, "is empty: there is nothing to go on from",
              how.bytes ? "give at least one letter" : "give at least one token");
}

std::string text_of_tokens(const TokenText& how, const std::vector<int64_t>& tokens) {
  std::string text;
  for (const int64_t token : tokens) {
    if (!how.bytes) {
      text += cat(text.empty() ? "" : " ", token);
    } else if (token < 256) {
      text += static_cast<char>(token);
    }
  }
  return text;
}

}  // namespace autotrain
