#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "autotrain/recipe.h"

namespace autotrain {

/// Of the data set `documents`, the token before a document's first byte and after its last.
inline constexpr int64_t kDocumentBoundary = 256;

/// How the tokens of a data set are written for people.
struct TokenText {
  bool bytes = false;                    ///< each is a byte of text; else they are told by their numbers
  std::optional<int64_t> boundary = {};  ///< stands before a text and ends it
};

/// That of the data set `data`.
TokenText token_text_of(const Choice& data);

/// The tokens of what a person wrote: its bytes, or numbers between blanks or commas.
/// @param vocabulary tokens are below it. @throws Error(kUsage) naming `where` and what is no token.
std::vector<int64_t> tokens_of(const TokenText& how, std::string_view text, int64_t vocabulary,
                               const std::string& where);

/// Tokens as text: their bytes, the boundary left out, or numbers with blanks between them.
std::string text_of_tokens(const TokenText& how, const std::vector<int64_t>& tokens);

}  // namespace autotrain
