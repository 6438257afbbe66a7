#include "data/windows.h"

#include <glob.h>

#include <algorithm>
#include <map>
#include <set>

#include "autotrain/error.h"
#include "base/c_locale.h"
#include "base/text.h"
#include "base/units.h"
#include "data/file_names.h"
#include "data/held_tokens.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

std::vector<fs::path> expand_pattern(const std::string& pattern) {
  std::error_code error;
  if (fs::is_regular_file(pattern, error)) return {pattern};  // though its name has brackets or braces
  const CLocaleScope by_bytes;                                // sorted alike everywhere
  bool folder = fs::is_directory(pattern, error);
  glob_t found{};
  const int result = ::glob(pattern.c_str(), GLOB_BRACE | GLOB_TILDE, nullptr, &found);
  std::vector<fs::path> files;
  for (size_t i = 0; result == 0 && i < found.gl_pathc; ++i) {
    if (fs::is_regular_file(found.gl_pathv[i], error)) files.emplace_back(found.gl_pathv[i]);
    folder = folder || fs::is_directory(found.gl_pathv[i], error);
  }
  ::globfree(&found);
  if (files.empty() && folder) {
    throw Error(ExitCode::kMissingFile, pattern, "is a folder, and no file",
                cat("name the files in it: ", (fs::path(pattern) / "*").string()));
  }
  if (files.empty()) {
    throw Error(ExitCode::kMissingFile, pattern, "matches no file",
                "check the path; patterns know *, ?, [a-z] and {a,b}");
  }
  return files;
}

// All that the patterns match, by the path that symbolic links lead to.
struct Matches {
  std::vector<fs::path> files;     // each once, as it was first named
  std::vector<fs::path> repeated;  // as they were named again
};

Matches match_files(const std::string& dataset, const std::vector<std::string>& patterns) {
  if (patterns.empty()) {
    throw Error(ExitCode::kBadRecipe, dataset + ": files", "names no file", "list files or patterns");
  }
  Matches matches;
  std::set<fs::path> known;
  for (const std::string& pattern : patterns) {
    for (fs::path& file : expand_pattern(pattern)) {
      const bool is_new = known.insert(fs::weakly_canonical(file)).second;
      (is_new ? matches.files : matches.repeated).push_back(std::move(file));
    }
  }
  return matches;
}

std::vector<fs::path> canonical_files(const char* where, const Parameters& parameters) {
  std::vector<fs::path> files = matching_files(where, parameters.texts("files"));
  for (fs::path& file : files) file = fs::weakly_canonical(file);
  return files;
}

// Of these files those that others are, too, or have copies among them.
std::vector<fs::path> read_by_both(const std::vector<fs::path>& files, const std::vector<fs::path>& others) {
  const std::set<fs::path> known(others.begin(), others.end());
  std::multimap<uintmax_t, fs::path> by_size;
  std::error_code none;
  for (const fs::path& file : others) by_size.emplace(fs::file_size(file, none), file);
  std::vector<fs::path> both;
  for (const fs::path& file : files) {
    const auto [first, last] = by_size.equal_range(fs::file_size(file, none));
    const bool copied = std::any_of(first, last, [&](const auto& other) {
      return other.first > 0 && have_same_bytes(file, other.second);
    });
    if (known.contains(file) || copied) both.push_back(file);
  }
  return both;
}

struct Windows {
  int64_t first = 0;  // token of the source where the split starts
  int64_t end = 0;
  int64_t context = 0;
  int64_t stride = 0;
};

class WindowDataset final : public Dataset, public Preloadable {
 public:
  WindowDataset(std::unique_ptr<const TokenSource> source, Windows windows)
      : source_(std::move(source)), windows_(windows) {}

  int64_t ram_bytes() const override { return source_.ram_bytes(); }
  void preload(const PreloadWork& work) override { source_.hold(work); }

  int64_t size() const override {
    return (windows_.end - windows_.first - windows_.context - 1) / windows_.stride + 1;
  }

  Batch get(c10::ArrayRef<int64_t> indices, const SampleRandom&) const override {
    const auto n = static_cast<int64_t>(indices.size());
    const int64_t context = windows_.context;
    Batch batch{torch::empty({n, context}, torch::kInt64), torch::empty({n, context}, torch::kInt64), n};
    auto* inputs = batch.inputs.mutable_data_ptr<int64_t>();
    auto* targets = batch.targets.mutable_data_ptr<int64_t>();
    std::vector<int64_t> window(static_cast<size_t>(context + 1));
    for (const int64_t index : indices) {
      read_window(index, window);
      inputs = std::copy(window.begin(), window.end() - 1, inputs);
      targets = std::copy(window.begin() + 1, window.end(), targets);
    }
    return batch;
  }

  DatasetInfo info() const override {
    return {.kind = DatasetInfo::Kind::kTokens,
            .input_shape = {windows_.context},
            .classes = source_.vocabulary(),
            .vocabulary = source_.vocabulary()};
  }

 private:
  void read_window(int64_t index, std::vector<int64_t>& window) const {
    try {
      source_.read(windows_.first + index * windows_.stride, windows_.context + 1, window.data());
    } catch (const Error& error) {
      throw Error(error.code(), cat("sample ", index, ": ", error.where()), error.problem(), error.hint());
    }
  }

  HeldTokens source_;
  Windows windows_;
};

}  // namespace

std::vector<fs::path> matching_files(const std::string& dataset, const std::vector<std::string>& patterns) {
  return match_files(dataset, patterns).files;
}

void doubt_files(const LookRequest& request, DataLook& look) {
  const Parameters& own = request.made_from.parameters;
  for (const fs::path& file : match_files(key_of(look.role), own.texts("files")).repeated) {
    look.doubt("files that are named more than once, and are read once",
               "name each once; patterns name all that they match", file.string());
  }
  const Parameters* const training = request.made_from.training;
  if (request.training == nullptr || training == nullptr) return;
  const std::vector<fs::path> files = canonical_files(key_of(look.role), own),
                              theirs = canonical_files("data.train", *training);
  const bool parted = own.text("split") == "validation" && training->text("split") == "train" &&
                      own.real("validation_share") == training->real("validation_share") &&
                      std::ranges::equal(files, theirs, have_same_bytes);
  if (parted) return;
  const std::vector<fs::path> shared = read_by_both(files, theirs);
  if (shared.empty() && own.text("split") != "all")
    doubt_part_of_others(files[0].string(), own.text("split"), look);
  for (const fs::path& file : shared) {
    look.doubt(cat("files of the training data that the ", word_of(look.role), " data read, too"),
               "name other files, or give both the same files and validation_share with split: train and "
               "split: validation",
               file.string());
  }
}

std::vector<KeySpec> window_keys(const std::string& unit) {
  return {
      list_key(KeyKind::kTextList, "files",
               "Files and patterns, read end to end in this order; matches of a pattern are sorted.",
               std::vector<std::string>{}),
      integer_key("context", "Length of a window.", 128).from(1, 1 << 20).in(unit),
      integer_key("stride", "From one window's start to the next; null: context.").from(1, 1 << 30).in(unit),
      word_key("split", "Which part of the files.", {"all", "train", "validation"}, "all"),
      real_key("validation_share",
               "The part at the end that split: validation reads and split: train leaves out.", 0.1)
          .from(0, 0.9)};
}

std::unique_ptr<Dataset> make_windows(const std::string& dataset, const std::string& unit,
                                      const Parameters& parameters,
                                      std::unique_ptr<const TokenSource> source) {
  const double share = parameters.real("validation_share");
  const int64_t border = whole_part(static_cast<double>(source->size()) * (1 - share));
  const std::string split = parameters.text("split");
  const int64_t context = parameters.integer("context");
  const Windows windows{.first = split == "validation" ? border : 0,
                        .end = split == "train" ? border : source->size(),
                        .context = context,
                        .stride = parameters.optional_integer("stride").value_or(context)};
  if (windows.end - windows.first < context + 1) {
    throw Error(ExitCode::kBadData, dataset + ": split " + split,
                cat("holds ", format_count(windows.end - windows.first), " ", unit,
                    ", less than one window of ", format_count(context + 1)),
                "name more files or a smaller context");
  }
  return std::make_unique<WindowDataset>(std::move(source), windows);
}

}  // namespace autotrain
