#include <cstring>

#include "autotrain/error.h"
#include "base/mapped_file.h"
#include "base/text.h"
#include "base/units.h"
#include "data/datasets.h"
#include "data/windows.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

// Widens tokens on their way out of the map, where they need not be aligned; returns the largest.
template <class Token>
Token widen(const uint8_t* from, int64_t count, int64_t* out) {
  Token largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    Token token = 0;
    std::memcpy(&token, from + i * static_cast<int64_t>(sizeof(Token)), sizeof(Token));
    largest = std::max(largest, token);
    out[i] = static_cast<int64_t>(token);
  }
  return largest;
}

// Token is uint16_t or uint32_t, as it lies in the files.
template <class Token>
class TokenFiles final : public TokenSource {
 public:
  TokenFiles(const std::vector<fs::path>& paths, int64_t vocabulary) : vocabulary_(vocabulary) {
    for (const fs::path& path : paths) add(path);
  }

  int64_t size() const override { return spans_.items(); }
  int64_t vocabulary() const override { return vocabulary_; }

  void read(int64_t first, int64_t count, int64_t* out) const override {
    spans_.for_each_piece(first, count, [&](size_t file, int64_t at, int64_t length) {
      const uint8_t* const from = files_[file].bytes().data() + at * kTokenBytes;
      if (static_cast<int64_t>(widen<Token>(from, length, out)) >= vocabulary_) fail(file, at, out);
      out += length;
    });
  }

 private:
  static constexpr auto kTokenBytes = static_cast<int64_t>(sizeof(Token));

  void add(const fs::path& path) {
    MappedFile file(path);
    const auto bytes = static_cast<int64_t>(file.bytes().size());
    if (bytes % kTokenBytes != 0) {
      throw Error(
          ExitCode::kBadData, path.string(),
          cat("has ", format_count(bytes), " bytes, no whole number of ", kTokenBytes, "-byte tokens"),
          "check dtype; the file is cut short or holds something else");
    }
    spans_.add(bytes / kTokenBytes);
    files_.push_back(std::move(file));
  }

  // One of the tokens of `file` from `at` on, which were read to `tokens`, is beyond the vocabulary.
  [[noreturn]] void fail(size_t file, int64_t at, const int64_t* tokens) const {
    while (*tokens < vocabulary_) ++tokens, ++at;
    throw Error(ExitCode::kBadData, cat(files_[file].path().string(), ": offset ", at * kTokenBytes),
                cat("the token ", *tokens, " is not below the vocabulary of ", vocabulary_),
                "check dtype and vocabulary; the file may be of another tokenizer");
  }

  int64_t vocabulary_;
  std::vector<MappedFile> files_;
  FileSpans spans_;
};

std::unique_ptr<Dataset> make_tokens(const DatasetRequest& request) {
  const Parameters& p = request.parameters;
  const auto vocabulary = p.optional_integer("vocabulary");
  if (!vocabulary) {
    throw Error(ExitCode::kBadRecipe, "tokens: vocabulary", "is missing",
                "give the number of the tokenizer's tokens");
  }
  const auto paths = matching_files("tokens", p.texts("files"));
  std::unique_ptr<const TokenSource> source;
  if (p.text("dtype") == "uint16")
    source = std::make_unique<TokenFiles<uint16_t>>(paths, *vocabulary);
  else
    source = std::make_unique<TokenFiles<uint32_t>>(paths, *vocabulary);
  return make_windows("tokens", "tokens", p, std::move(source));
}

}  // namespace

DatasetRow tokens_row() {
  std::vector<KeySpec> keys = window_keys("tokens");
  keys.insert(keys.begin() + 1,
              {word_key("dtype", "A token in the files, little endian.", {"uint16", "uint32"}, "uint16"),
               integer_key("vocabulary", "Number of different tokens, the tokenizer's; to be given.")
                   .from(1, int64_t{1} << 32)});
  return {{"tokens",
           "Language modelling over files of token numbers, which stay on disk until they are used: a sample "
           "is a window of tokens, its target the same window one token later.",
           std::move(keys)},
          make_tokens};
}

}  // namespace autotrain
