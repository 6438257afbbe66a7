#include <fcntl.h>
#include <glob.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "autotrain/error.h"
#include "base/text.h"
#include "base/units.h"
#include "data/datasets.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

constexpr int64_t kBytes = 256;     // the vocabulary of a byte-level model
constexpr size_t kMostFiles = 512;  // each stays open; the usual limit is 1024

std::vector<fs::path> expand_pattern(const std::string& pattern) {
  glob_t found{};
  const int result = ::glob(pattern.c_str(), GLOB_BRACE | GLOB_TILDE, nullptr, &found);
  std::vector<fs::path> files;
  for (size_t i = 0; result == 0 && i < found.gl_pathc; ++i) {
    std::error_code error;
    if (fs::is_regular_file(found.gl_pathv[i], error)) files.emplace_back(found.gl_pathv[i]);
  }
  ::globfree(&found);
  if (files.empty()) {
    throw Error(ExitCode::kMissingFile, pattern, "matches no file",
                "check the path; patterns know *, ?, [a-z] and {a,b}");
  }
  return files;
}

// Files end to end, read where needed: a corpus may be larger than memory.
class Corpus {
 public:
  explicit Corpus(const std::vector<fs::path>& files) {
    for (const fs::path& path : files) add(path);
  }
  ~Corpus() {
    for (const File& file : files_) ::close(file.descriptor);
  }
  Corpus(const Corpus&) = delete;
  Corpus& operator=(const Corpus&) = delete;

  int64_t bytes() const { return bytes_; }

  // [offset, offset + count) of the corpus, which may span files.
  void read(int64_t offset, uint8_t* out, int64_t count) const {
    auto file = std::upper_bound(files_.begin(), files_.end(), offset,
                                 [](int64_t at, const File& f) { return at < f.start; }) -
                1;
    for (; count > 0; ++file) {
      const int64_t take = std::min(count, file->start + file->bytes - offset);
      read_file(*file, offset - file->start, out, take);
      offset += take, out += take, count -= take;
    }
  }

 private:
  struct File {
    fs::path path;
    int descriptor;
    int64_t start;
    int64_t bytes;
  };

  void add(const fs::path& path) {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) throw Error(ExitCode::kMissingFile, path.string(), std::strerror(errno));
    const int64_t size = ::lseek(descriptor, 0, SEEK_END);
    if (size <= 0) {
      ::close(descriptor);
      return;
    }
    files_.push_back({path, descriptor, bytes_, size});
    bytes_ += size;
  }

  void read_file(const File& file, int64_t at, uint8_t* out, int64_t count) const {
    while (count > 0) {
      const ssize_t got = ::pread(file.descriptor, out, static_cast<size_t>(count), at);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) {
        throw Error(ExitCode::kBadData, cat(file.path.string(), ": offset ", at),
                    got < 0 ? std::strerror(errno) : "the file became shorter while it was read");
      }
      out += got, at += got, count -= got;
    }
  }

  std::vector<File> files_;
  int64_t bytes_ = 0;
};

// Sample i is the window of context + 1 bytes that starts at first + i × stride.
class TextDataset final : public Dataset {
 public:
  struct Windows {
    int64_t first = 0;  // byte of the corpus where this split starts
    int64_t end = 0;
    int64_t context = 0;
    int64_t stride = 0;
  };

  TextDataset(std::shared_ptr<const Corpus> corpus, Windows windows)
      : corpus_(std::move(corpus)), windows_(windows) {}

  int64_t size() const override {
    return (windows_.end - windows_.first - windows_.context - 1) / windows_.stride + 1;
  }

  Batch get(c10::ArrayRef<int64_t> indices, const SampleRandom&) const override {
    const auto n = static_cast<int64_t>(indices.size());
    const int64_t context = windows_.context;
    Batch batch{torch::empty({n, context}, torch::kInt64), torch::empty({n, context}, torch::kInt64), n};
    auto* inputs = batch.inputs.mutable_data_ptr<int64_t>();
    auto* targets = batch.targets.mutable_data_ptr<int64_t>();
    std::vector<uint8_t> window(static_cast<size_t>(context + 1));
    for (const int64_t index : indices) {
      corpus_->read(windows_.first + index * windows_.stride, window.data(), context + 1);
      inputs = std::copy(window.begin(), window.end() - 1, inputs);
      targets = std::copy(window.begin() + 1, window.end(), targets);
    }
    return batch;
  }

  DatasetInfo info() const override {
    return {.kind = DatasetInfo::Kind::kTokens,
            .input_shape = {windows_.context},
            .classes = kBytes,
            .vocabulary = kBytes};
  }

 private:
  std::shared_ptr<const Corpus> corpus_;
  Windows windows_;
};

TextDataset::Windows windows_of(const Parameters& p, int64_t bytes) {
  const double share = p.real("validation_share");
  const auto border = static_cast<int64_t>(static_cast<double>(bytes) * (1 - share));
  const std::string split = p.text("split");
  const int64_t context = p.integer("context");
  TextDataset::Windows windows{.first = split == "validation" ? border : 0,
                               .end = split == "train" ? border : bytes,
                               .context = context,
                               .stride = p.optional_integer("stride").value_or(context)};
  if (windows.end - windows.first < context + 1) {
    throw Error(ExitCode::kBadData, "text: split " + split,
                cat("holds ", format_bytes(windows.end - windows.first), ", less than one window of ",
                    context + 1, " bytes"),
                "name more files or a smaller context");
  }
  return windows;
}

std::unique_ptr<Dataset> make(const DatasetRequest& request) {
  const Parameters& p = request.parameters;
  std::vector<fs::path> files;
  for (const std::string& pattern : p.texts("files")) {
    for (fs::path& file : expand_pattern(pattern)) files.push_back(std::move(file));
  }
  if (files.empty())
    throw Error(ExitCode::kBadRecipe, "text: files", "names no file", "list files or patterns");
  if (files.size() > kMostFiles) {
    throw Error(ExitCode::kBadData, "text: files",
                cat(files.size(), " files; at most ", kMostFiles, " at once"),
                "join them into fewer files with cat");
  }
  auto corpus = std::make_shared<const Corpus>(files);
  const auto windows = windows_of(p, corpus->bytes());
  return std::make_unique<TextDataset>(std::move(corpus), windows);
}

}  // namespace

DatasetRow text_row() {
  return {{"text",
           "Byte-level language modelling over files: a sample is a window of bytes, its target the same "
           "window one "
           "byte later.",
           {list_key(KeyKind::kTextList, "files",
                     "Files and patterns, read end to end in this order; matches of a pattern are sorted.",
                     std::vector<std::string>{}),
            integer_key("context", "Bytes in a window.", 128).from(1, 1 << 20).in("bytes"),
            integer_key("stride", "From one window's start to the next; null: context.")
                .from(1, 1 << 30)
                .in("bytes"),
            word_key("split", "Which part of the text.", {"all", "train", "validation"}, "all"),
            real_key("validation_share",
                     "The part at the end that split: validation reads and split: train leaves out.", 0.1)
                .from(0, 0.9)}},
          make};
}

}  // namespace autotrain
