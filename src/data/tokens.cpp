#include <algorithm>
#include <cstring>
#include <mutex>

#include "autotrain/error.h"
#include "base/mapped_file.h"
#include "base/text.h"
#include "base/units.h"
#include "data/datasets.h"
#include "data/preload.h"
#include "data/token_file.h"
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
    check_token_file({path, file.bytes(), kTokenBytes, vocabulary_});  // says more than the number of bytes
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

constexpr int64_t kMost16 = 1 << 16;
constexpr int64_t kMostCounted = 1 << 24;  // of a vocabulary

// ------------------------------------------------------------------ a look

// How often each token stands in the files, and where those beyond the vocabulary do.
class TokenCount {
 public:
  explicit TokenCount(int64_t vocabulary) : counts_(static_cast<size_t>(vocabulary)) {}

  template <class Token>
  void count(const MappedFile& file, int64_t first, int64_t tokens, DataLook& look) {
    std::vector<int64_t> wide(static_cast<size_t>(tokens));
    constexpr auto kBytes = static_cast<int64_t>(sizeof(Token));
    widen<Token>(file.bytes().data() + first * kBytes, tokens, wide.data());
    const std::lock_guard lock(mutex_);
    all_ += tokens;
    for (int64_t i = 0; i < tokens; ++i) {
      const int64_t token = wide[static_cast<size_t>(i)];
      if (token < std::ssize(counts_)) {
        ++counts_[static_cast<size_t>(token)];
        continue;
      }
      look.doubt("tokens that are not below the vocabulary",
                 "check dtype and vocabulary; the file may be of another tokenizer",
                 cat(file.path().string(), ": offset ", (first + i) * kBytes, ": ", token))
          .stops = true;
    }
  }

  void tell(bool whole, DataLook& look) const {
    if (all_ == 0) return;
    const auto commonest = std::ranges::max_element(counts_);
    const int64_t different = std::ranges::count_if(counts_, [](int64_t count) { return count > 0; });
    const double share = static_cast<double>(*commonest) / static_cast<double>(all_);
    int64_t largest = std::ssize(counts_) - 1;
    while (largest > 0 && counts_[static_cast<size_t>(largest)] == 0) --largest;
    const std::string of = whole ? "" : cat(" of the first ", format_count(all_));
    look.facts.emplace_back("different tokens" + of,
                            cat(format_count(different), " of ", format_count(std::ssize(counts_))));
    look.facts.emplace_back("largest token" + of, format_count(largest));
    look.facts.emplace_back("commonest token" + of,
                            cat(commonest - counts_.begin(), ", ", format_percent(share, 1), " of all"));
    if (share > kTooCommon) {
      look.doubt("tokens of one kind that are more than half of all",
                 "check dtype, and whether the files are padded",
                 cat("token ", commonest - counts_.begin(), ": ", format_percent(share, 1)));
    }
    if (whole && all_ >= kEnough && 2 * largest < std::ssize(counts_)) {
      look.doubt("vocabularies of which the larger half is never used",
                 "set vocabulary to the number of the tokenizer's tokens, and check dtype",
                 cat("the largest token is ", largest, ", the vocabulary ", std::ssize(counts_)));
    }
  }

 private:
  static constexpr double kTooCommon = 0.5;
  static constexpr int64_t kEnough = 100'000;

  std::mutex mutex_;
  std::vector<int64_t> counts_;
  int64_t all_ = 0;
};

// Some tokens of a file.
struct Part {
  size_t file;
  int64_t first, count;
};

template <class Token>
void count_tokens(const std::vector<MappedFile>& files, const LookOptions& options, TokenCount& count,
                  DataLook& look) {
  constexpr int64_t kPart = 1 << 20, kAtStart = 1 << 16;
  constexpr auto kBytes = static_cast<int64_t>(sizeof(Token));
  const bool whole = options.depth == LookDepth::kWhole;
  std::vector<Part> parts;
  for (size_t file = 0; file < files.size(); ++file) {
    const int64_t tokens = std::ssize(files[file].bytes()) / kBytes;
    for (int64_t first = 0; first < (whole ? tokens : std::min(tokens, kAtStart)); first += kPart)
      parts.push_back({file, first, std::min(whole ? kPart : kAtStart, tokens - first)});
  }
  if (!whole && parts.size() > 16) parts.resize(16);
  visit_for_look(std::ssize(parts), options, [&](int64_t i) {
    const Part& part = parts[static_cast<size_t>(i)];
    count.count<Token>(files[part.file], part.first, part.count, look);
  });
}

void look_at_tokens(const LookRequest& request, DataLook& look) {
  const Parameters& p = request.made_from.parameters;
  const int64_t vocabulary = p.optional_integer("vocabulary").value_or(1),
                bytes = p.text("dtype") == "uint16" ? 2 : 4;
  std::vector<MappedFile> files;
  int64_t tokens = 0;
  for (const fs::path& path : matching_files("tokens", p.texts("files"))) {
    const MappedFile& file = files.emplace_back(path);
    tokens += std::ssize(file.bytes()) / bytes;
    if (looks_swapped({path, file.bytes(), bytes, vocabulary})) {
      look.doubt("files whose bytes look swapped",
                 "write them little endian: numpy.fromfile(path, '>u2').astype('<u2').tofile(path)",
                 path.string());
    }
  }
  look.what = cat("tokens: ", format_count(tokens), " tokens in ", files.size(),
                  files.size() == 1 ? " file" : " files", ", ", format_count(request.data.size()),
                  " windows of ", format_count(p.integer("context")));
  look.facts.emplace_back("dtype", p.text("dtype"));
  doubt_files(request, look);
  if (vocabulary > kMostCounted) return;
  TokenCount count(vocabulary);
  if (bytes == 2)
    count_tokens<uint16_t>(files, request.options, count, look);
  else
    count_tokens<uint32_t>(files, request.options, count, look);
  count.tell(request.options.depth == LookDepth::kWhole, look);
}

std::unique_ptr<Dataset> make_tokens(const DatasetRequest& request) {
  const Parameters& p = request.parameters;
  const auto vocabulary = p.optional_integer("vocabulary");
  if (!vocabulary) {
    throw Error(ExitCode::kBadRecipe, "tokens: vocabulary", "is missing",
                "give the number of the tokenizer's tokens");
  }
  if (*vocabulary > kMost16 && p.text("dtype") == "uint16") {
    throw Error(
        ExitCode::kBadRecipe, "tokens: dtype",
        cat("uint16 holds tokens below ", format_count(kMost16), ", and the vocabulary is ",
            format_count(*vocabulary)),
        cat("set dtype: uint32, and write the files so (a larger token was cut when it became uint16), or "
            "vocabulary: ",
            kMost16, " where no token is larger"));
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
          make_tokens,
          {},
          nullptr,
          "",
          look_at_tokens,
          {"dtype", "vocabulary", "context"}};
}

}  // namespace autotrain
