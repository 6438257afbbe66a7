#include <algorithm>
#include <bit>
#include <map>
#include <string_view>

#include "autotrain/error.h"
#include "base/mapped_file.h"
#include "base/random.h"
#include "base/text.h"
#include "base/units.h"
#include "data/datasets.h"
#include "data/preload.h"
#include "data/text_look.h"
#include "data/token_text.h"
#include "data/windows.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

constexpr int64_t kBoundary = kDocumentBoundary;
constexpr int64_t kVocabulary = 257;
constexpr int64_t kIgnored = -100;  // what cross_entropy does not count, unless told otherwise

// Bytes of a file.
struct Span {
  size_t file;
  int64_t at;
  int64_t bytes;
};

// Calls `visit(at, bytes)` for each line, without its end.
template <class Visit>
void for_each_line(std::span<const uint8_t> text, Visit visit) {
  for (auto begin = text.begin(); begin != text.end();) {
    const auto end = std::find(begin, text.end(), '\n');
    const bool carriage_return = end != begin && *(end - 1) == '\r';
    visit(begin - text.begin(), end - begin - (carriage_return ? 1 : 0));
    begin = end == text.end() ? end : end + 1;
  }
}

// The documents of a file; empty ones are none.
std::vector<Span> find_documents(std::span<const uint8_t> text, size_t file, const std::string& unit) {
  if (unit == "file")
    return text.empty() ? std::vector<Span>{} : std::vector{Span{file, 0, std::ssize(text)}};
  const bool paragraphs = unit == "paragraph";
  const auto is_blank = [](uint8_t byte) { return byte == ' ' || byte == '\t' || byte == '\r'; };
  std::vector<Span> found;
  bool goes_on = false;  // a paragraph, with the next line
  for_each_line(text, [&](int64_t at, int64_t bytes) {
    const std::span<const uint8_t> line = text.subspan(static_cast<size_t>(at), static_cast<size_t>(bytes));
    const bool holds = paragraphs ? !std::ranges::all_of(line, is_blank) : bytes > 0;
    if (holds && goes_on) {
      found.back().bytes = at + bytes - found.back().at;
    } else if (holds) {
      found.push_back({file, at, bytes});
    }
    goes_on = holds && paragraphs;
  });
  return found;
}

// Tokens of one document: boundary, bytes, boundary. A sample predicts `tokens` of those from the second on,
// each from what stands before it in the sample.
struct Sample {
  size_t file;
  int64_t at;  // where in the file the first token to be predicted is
  int32_t tokens;
  bool begins;  // with the document's first token
  bool ends;    // with its last
};

class Documents final : public Dataset, public Preloadable {
 public:
  struct Options {
    int64_t context = 0;
    int64_t multiple_of = 1;
  };

  Documents(std::vector<MappedFile> files, std::span<const Span> documents, Options options)
      : files_(std::move(files)), documents_(documents.begin(), documents.end()), o_(options) {
    for (const Span& document : documents) add(document);
  }

  int64_t size() const override { return std::ssize(samples_); }

  const std::vector<MappedFile>& files() const { return files_; }
  std::span<const Span> documents() const { return documents_; }
  std::string_view text_of(const Span& document) const {
    const uint8_t* const at = files_[document.file].bytes().data() + document.at;
    return {reinterpret_cast<const char*>(at), static_cast<size_t>(document.bytes)};
  }

  std::optional<int64_t> cost(int64_t index) const override {
    return samples_[static_cast<size_t>(index)].tokens;
  }

  int64_t ram_bytes() const override {
    int64_t bytes = 0;
    for (const MappedFile& file : files_) bytes += file.held_in_memory() ? 0 : std::ssize(file.bytes());
    return bytes;
  }
  void preload(const PreloadWork&) override {
    for (MappedFile& file : files_) file.hold_in_memory();
  }

  DatasetInfo info() const override {
    return {.kind = DatasetInfo::Kind::kTokens,
            .input_shape = {o_.context},
            .classes = kVocabulary,
            .vocabulary = kVocabulary};
  }

  Batch get(c10::ArrayRef<int64_t> indices, const SampleRandom&) const override {
    const auto n = static_cast<int64_t>(indices.size());
    int64_t longest = 0;
    for (const int64_t index : indices) longest = std::max(longest, *cost(index));
    const int64_t length = std::min(o_.context, round_up(longest, o_.multiple_of));
    Batch batch{torch::full({n, length}, kBoundary, torch::kInt64),
                torch::full({n, length}, kIgnored, torch::kInt64), n};
    auto* inputs = batch.inputs.mutable_data_ptr<int64_t>();
    auto* targets = batch.targets.mutable_data_ptr<int64_t>();
    for (const int64_t index : indices) {
      write(samples_[static_cast<size_t>(index)], inputs, targets);
      inputs += length, targets += length;
    }
    return batch;
  }

 private:
  void add(const Span& document) {
    const int64_t to_predict = document.bytes + 1;
    for (int64_t first = 0; first < to_predict; first += o_.context) {
      const int64_t tokens = std::min(o_.context, to_predict - first);
      samples_.push_back({.file = document.file,
                          .at = document.at + first,
                          .tokens = static_cast<int32_t>(tokens),
                          .begins = first == 0,
                          .ends = first + tokens == to_predict});
    }
  }

  void write(const Sample& sample, int64_t* inputs, int64_t* targets) const {
    const uint8_t* const next = files_[sample.file].bytes().data() + sample.at;
    const int64_t bytes = sample.tokens - (sample.ends ? 1 : 0);
    std::copy_n(next, bytes, targets);
    if (sample.ends) targets[bytes] = kBoundary;
    inputs[0] = sample.begins ? kBoundary : next[-1];
    std::copy_n(next, sample.tokens - 1, inputs + 1);
  }

  std::vector<MappedFile> files_;
  std::vector<Span> documents_;
  Options o_;
  std::vector<Sample> samples_;
};

// The documents that `split` leaves.
std::span<const Span> part_of(std::span<const Span> documents, const Parameters& p) {
  const double share = p.real("validation_share");
  const auto border = static_cast<size_t>(whole_part(static_cast<double>(documents.size()) * (1 - share)));
  const std::string split = p.text("split");
  if (split == "all") return documents;
  return split == "train" ? documents.first(border) : documents.subspan(border);
}

// As Macs wrote lines long ago: what is read as one line.
bool has_carriage_returns_alone(std::span<const uint8_t> text) {
  return std::ranges::find(text, '\n') == text.end() && std::ranges::find(text, '\r') != text.end();
}

constexpr const char* kConvertLines = "convert its lines: tr '\\r' '\\n' < FILE > NEW";

[[noreturn]] void fail_empty_part(std::span<const Span> documents, const std::vector<MappedFile>& files,
                                  const Parameters& p) {
  std::string cure = documents.empty() ? "name more files; empty lines are no documents"
                                       : "name more files, or set split: all or another validation_share";
  if (!documents.empty() && p.text("document") != "line") cure += ", or document: line";
  const auto odd = std::ranges::find_if(
      files, [](const MappedFile& file) { return has_carriage_returns_alone(file.bytes()); });
  if (odd != files.end()) {
    cure = cat(odd->path().string(), " ends its lines by carriage returns alone: ", kConvertLines, "; or ",
               cure);
  }
  throw Error(ExitCode::kBadData, "documents: split " + p.text("split"),
              cat("holds none of the ", documents.size(), " documents of ", files.size(), " files"), cure);
}

std::unique_ptr<Dataset> make_documents(const DatasetRequest& request) {
  const Parameters& p = request.parameters;
  std::vector<MappedFile> files;
  std::vector<Span> documents;
  for (const fs::path& path : matching_files("documents", p.texts("files"))) {
    const size_t file = files.size();
    const auto found = find_documents(files.emplace_back(path).bytes(), file, p.text("document"));
    documents.insert(documents.end(), found.begin(), found.end());
  }
  const std::span<const Span> part = part_of(documents, p);
  if (part.empty()) fail_empty_part(documents, files, p);
  return std::make_unique<Documents>(
      std::move(files), part,
      Documents::Options{.context = p.integer("context"), .multiple_of = p.integer("multiple_of")});
}

// ------------------------------------------------------------------ a look

// How many documents have so many bytes, by powers of two.
LookBars lengths_of(std::span<const Span> documents) {
  std::map<uint64_t, int64_t> counts;  // by the number of bits
  for (const Span& document : documents)
    ++counts[static_cast<uint64_t>(std::bit_width(static_cast<uint64_t>(document.bytes)))];
  LookBars bars{.title = "documents by bytes"};
  for (const auto& [bits, count] : counts) {
    bars.labels.push_back(cat(int64_t{1} << (bits - 1), " to ", (int64_t{1} << bits) - 1));
    bars.counts.push_back(count);
  }
  return bars;
}

std::vector<uint64_t> hashes_of(const Documents& data) {
  std::vector<uint64_t> hashes;
  for (const Span& document : data.documents()) hashes.push_back(fnv1a(data.text_of(document)));
  return hashes;
}

void doubt_repeated_documents(const Documents& own, const Documents* training, DataLook& look) {
  const std::vector<uint64_t> known = training == nullptr ? std::vector<uint64_t>() : hashes_of(*training);
  const auto place = [&](size_t i) {
    const Span& document = own.documents()[i];
    return cat(own.files()[document.file].path().string(), ": offset ", document.at);
  };
  doubt_repeated("documents", hashes_of(own), training == nullptr ? nullptr : &known, place, look);
}

void look_at_documents(const LookRequest& request, DataLook& look) {
  const auto* const own = dynamic_cast<const Documents*>(&request.data);
  if (own == nullptr) return;
  const std::span<const Span> documents = own->documents();
  const auto by_bytes = [](const Span& a, const Span& b) { return a.bytes < b.bytes; };
  const Span& longest = *std::ranges::max_element(documents, by_bytes);
  look.what = cat("documents: ", format_count(std::ssize(documents)), " in ", own->files().size(),
                  own->files().size() == 1 ? " file" : " files", ", ", format_count(own->size()), " samples");
  look.facts.emplace_back("longest document",
                          cat(format_count(longest.bytes), " bytes, ",
                              own->files()[longest.file].path().string(), ": offset ", longest.at));
  look.bars.push_back(lengths_of(documents));
  const bool whole = request.options.depth == LookDepth::kWhole;
  for (const MappedFile& file : own->files()) {
    look_at_text_file(file, request.options.depth, look);
    if (request.made_from.parameters.text("document") != "file" && has_carriage_returns_alone(file.bytes()))
      look.doubt("files of a single line, whose lines end by carriage returns alone", kConvertLines,
                 file.path().string());
  }
  doubt_files(request, look);
  if (whole) doubt_repeated_documents(*own, dynamic_cast<const Documents*>(request.training), look);
}

}  // namespace

DatasetRow documents_row() {
  return {{"documents",
           "Byte-level language modelling over documents of different lengths: a sample is a document with a "
           "token before and after it, or a part of a long one, padded to the longest of its micro-batch.",
           {list_key(KeyKind::kTextList, "files",
                     "Files and patterns, in this order; matches of a pattern are sorted.",
                     std::vector<std::string>{}),
            word_key("document", "What a document is; a paragraph ends at an empty line.",
                     {"line", "paragraph", "file"}, "line"),
            integer_key("context", "Length of a sample at most; longer documents become several.", 256)
                .from(1, 1 << 20)
                .in("bytes"),
            integer_key("multiple_of", "Samples are padded to a multiple of it, but not beyond context.", 8)
                .from(1, 1 << 20)
                .in("bytes"),
            word_key("split", "Which part of the documents.", {"all", "train", "validation"}, "all"),
            real_key("validation_share",
                     "The part at the end that split: validation reads and split: train leaves out.", 0.1)
                .from(0, 0.9)}},
          make_documents,
          {},
          nullptr,
          "",
          look_at_documents,
          {"document", "context", "multiple_of"}};
}

}  // namespace autotrain
