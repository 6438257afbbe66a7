#include "checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <set>
#include <unordered_map>

#include "autotrain/error.h"
#include "base/descriptors.h"
#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "checkpoint/file_notes.h"

namespace autotrain {
namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "safetensors holds little-endian bytes");

namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kLargestHeader = 100'000'000;  // the format's own bound

struct DtypeName {
  torch::ScalarType dtype;
  std::string_view name;
};

constexpr std::array kDtypes = {
    DtypeName{torch::kFloat64, "F64"},   DtypeName{torch::kFloat32, "F32"}, DtypeName{torch::kFloat16, "F16"},
    DtypeName{torch::kBFloat16, "BF16"}, DtypeName{torch::kInt64, "I64"},   DtypeName{torch::kInt32, "I32"},
    DtypeName{torch::kInt16, "I16"},     DtypeName{torch::kInt8, "I8"},     DtypeName{torch::kUInt8, "U8"},
    DtypeName{torch::kBool, "BOOL"},
};

}  // namespace

bool can_be_saved(torch::ScalarType dtype) {
  return std::ranges::find(kDtypes, dtype, &DtypeName::dtype) != kDtypes.end();
}

namespace {

std::string_view dtype_name(torch::ScalarType dtype) {
  for (const DtypeName& row : kDtypes) {
    if (row.dtype == dtype) return row.name;
  }
  throw std::logic_error(cat("tensors of type ", dtype, " cannot be saved"));
}

[[noreturn]] void fail(const fs::path& path, const std::string& what) {
  throw Error(ExitCode::kBadData, path.string(), what, "the file is damaged; use another one");
}

// Each tensor once, under the first of its names.
struct Distinct {
  std::vector<NamedTensor> tensors;
  Json other_names = Json::object();  // name → the name that is written
};

Distinct distinct(const std::vector<NamedTensor>& tensors) {
  Distinct result;
  std::unordered_map<const void*, std::string> first_names;
  for (const NamedTensor& item : tensors) {
    const auto [first, fresh] = first_names.emplace(item.tensor.unsafeGetTensorImpl(), item.name);
    if (fresh) {
      result.tensors.push_back(item);
    } else {
      result.other_names[item.name] = first->second;
    }
  }
  return result;
}

std::string header_text(const Distinct& content, const FileNotes& notes) {
  Json header = Json::object(), metadata = content.other_names;
  for (const auto& [name, text] : notes) metadata[name] = text;
  if (!metadata.empty()) header[kMetadataName] = std::move(metadata);
  size_t offset = 0;
  for (const NamedTensor& item : content.tensors) {
    const size_t end = offset + item.tensor.nbytes();
    const bool fresh = header
                           .emplace(item.name, Json{{"dtype", dtype_name(item.tensor.scalar_type())},
                                                    {"shape", item.tensor.sizes().vec()},
                                                    {"data_offsets", {offset, end}}})
                           .second;
    check_invariant(fresh, "tensors in one file have distinct names");
    offset = end;
  }
  std::string text = words_of_json(header);
  text.resize((text.size() + 7) / 8 * 8, ' ');  // the bytes that follow stay aligned
  return text;
}

// One tensor of the header, checked against the file.
struct Entry : TensorEntry {
  int64_t begin = 0;
  int64_t end = 0;
};

int64_t element_count(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(count, size, &count)) return -1;
  }
  return count;
}

// How many bytes the tensor has is its type's to say; of one that is not read here nobody knows.
bool has_its_bytes(const Entry& entry) {
  int64_t bytes = element_count(entry.shape);
  if (bytes < 0 || entry.shape.size() > 64) return false;
  if (!entry.unread_type.empty()) return true;
  const auto item_bytes = static_cast<int64_t>(c10::elementSize(entry.dtype));
  return !__builtin_mul_overflow(bytes, item_bytes, &bytes) && entry.end - entry.begin == bytes;
}

Entry parse_entry(const fs::path& path, const std::string& name, const Json& json, int64_t data_bytes) {
  Entry entry{{.name = name}};
  try {
    const auto wanted = json.at("dtype").get<std::string>();
    const auto row =
        std::find_if(kDtypes.begin(), kDtypes.end(), [&](const DtypeName& d) { return d.name == wanted; });
    if (row == kDtypes.end())
      entry.unread_type = wanted.empty() ? "?" : wanted;
    else
      entry.dtype = row->dtype;
    read_exactly(json.at("shape"), entry.shape);
    read_exactly(json.at("data_offsets").at(0), entry.begin);
    read_exactly(json.at("data_offsets").at(1), entry.end);
  } catch (const nlohmann::json::exception& error) {
    fail(path, cat("tensor ", quote(name), " has a malformed entry"));
  }
  const bool inside = entry.begin >= 0 && entry.begin <= entry.end && entry.end <= data_bytes;
  if (!inside || !has_its_bytes(entry)) {
    fail(path, cat("tensor ", quote(name), " claims bytes ", entry.begin, " to ", entry.end, " of ",
                   data_bytes, ", which is not its shape and type"));
  }
  return entry;
}

std::map<std::string, std::string> parse_metadata(const fs::path& path, const Json& header) {
  std::map<std::string, std::string> metadata;
  if (!header.contains(kMetadataName)) return metadata;
  if (!header[kMetadataName].is_object()) fail(path, "the metadata are not a JSON object");
  for (const auto& [name, text] : header[kMetadataName].items()) {
    if (!text.is_string()) fail(path, cat("the metadata's ", quote(name), " is not a text"));
    metadata[name] = text;
  }
  return metadata;
}

std::vector<Entry> parse_entries(const fs::path& path, const Json& header, int64_t data_bytes) {
  std::vector<Entry> entries;
  for (const auto& [name, json] : header.items()) {
    if (name != kMetadataName) entries.push_back(parse_entry(path, name, json, data_bytes));
  }
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) { return a.begin < b.begin; });
  int64_t covered = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != covered) fail(path, cat("tensor ", quote(entry.name), " leaves a gap or overlaps"));
    covered = entry.end;
  }
  if (covered != data_bytes) fail(path, cat(data_bytes - covered, " bytes belong to no tensor"));
  return entries;
}

// A file whose header was checked.
class TensorFile {
 public:
  explicit TensorFile(const fs::path& path) : path_(path), in_(path) {
    const auto file_bytes = static_cast<uint64_t>(in_.size());
    uint64_t header_bytes = 0;
    if (in_.read(&header_bytes, sizeof(header_bytes)) < sizeof(header_bytes))
      fail(path, "is shorter than a header length");
    if (header_bytes > kLargestHeader || header_bytes > file_bytes - sizeof(header_bytes)) {
      fail(path, cat("claims a header of ", header_bytes, " bytes in a file of ", file_bytes));
    }
    std::string header(header_bytes, '\0');
    in_.read(header.data(), header_bytes);
    const Json json = Json::parse(header, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) fail(path, "the header is not a JSON object");
    metadata_ = parse_metadata(path, json);
    data_begin_ = static_cast<int64_t>(sizeof(header_bytes) + header_bytes);
    entries_ = parse_entries(path, json, in_.size() - data_begin_);
  }

  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const std::vector<Entry>& entries() const { return entries_; }

  // The bytes of an entry into a contiguous CPU tensor of its shape and type.
  void read(const Entry& entry, const torch::Tensor& target) {
    const auto bytes = static_cast<size_t>(entry.end - entry.begin);
    in_.seek(data_begin_ + entry.begin);
    if (in_.read(target.mutable_data_ptr(), bytes) < bytes)
      fail(path_, cat("ends inside tensor ", quote(entry.name)));
  }

 private:
  fs::path path_;
  InputFile in_;
  int64_t data_begin_ = 0;
  std::map<std::string, std::string> metadata_;
  std::vector<Entry> entries_;
};

// Where parameters have counts of their own, an older file has one that was that of all.
bool counts_for_all(const Entry& entry, const torch::Tensor& live) {
  return entry.name == "step" && entry.shape.empty() && live.dim() == 1 && live.scalar_type() == entry.dtype;
}

void check_same_tensors(const fs::path& path, const std::vector<Entry>& entries,
                        const std::map<std::string, torch::Tensor>& live, const std::string& hint) {
  std::vector<std::string> missing, left_over, reshaped;
  std::set<const void*> held;
  for (const Entry& entry : entries) {
    check_type_is_read(path, entry);
    const auto found = live.find(entry.name);
    if (found != live.end()) held.insert(found->second.unsafeGetTensorImpl());
    if (found == live.end()) {
      left_over.push_back(entry.name);
    } else if (counts_for_all(entry, found->second)) {
      continue;
    } else if (found->second.sizes() != entry.shape || found->second.scalar_type() != entry.dtype) {
      reshaped.push_back(cat(entry.name, " ", c10::IntArrayRef(entry.shape), " → ", found->second.sizes()));
    }
  }
  for (const auto& [name, tensor] : live) {
    if (!held.contains(tensor.unsafeGetTensorImpl())) missing.push_back(name);
  }
  if (missing.empty() && left_over.empty() && reshaped.empty()) return;
  std::string text = "does not hold the tensors that this recipe's model and optimizer have";
  if (!missing.empty()) text += "\n  not in the file: " + some_of(missing);
  if (!left_over.empty()) text += "\n  only in the file: " + some_of(left_over);
  if (!reshaped.empty()) text += "\n  of another shape: " + some_of(reshaped);
  throw Error(ExitCode::kBadData, path.string(), text, hint);
}

}  // namespace

void write_safetensors(const fs::path& path, const std::vector<NamedTensor>& tensors) {
  write_safetensors(path, tensors, {});
}

void write_safetensors(const fs::path& path, const std::vector<NamedTensor>& tensors,
                       const FileNotes& notes) {
  const Distinct content = distinct(tensors);
  const std::string header = header_text(content, notes);
  OutputFile file(path, OutputFile::Mode::kTruncate);
  const uint64_t length = header.size();
  file.write({reinterpret_cast<const char*>(&length), sizeof(length)});
  file.write(header);
  for (const NamedTensor& item : content.tensors) {
    const torch::Tensor bytes = item.tensor.detach().to(torch::kCPU).contiguous();
    file.write({static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes()});
  }
  file.sync();
}

void check_type_is_read(const fs::path& path, const TensorEntry& entry) {
  if (entry.unread_type.empty()) return;
  throw Error(
      ExitCode::kBadData, path.string(),
      cat("tensor ", quote(entry.name), " is of type ", quote(entry.unread_type), ", which is not read here"),
      "take the file in F32, F16 or BF16");
}

std::vector<NamedTensor> read_safetensors(const fs::path& path) {
  TensorFile file(path);
  std::vector<NamedTensor> tensors;
  for (const Entry& entry : file.entries()) {
    check_type_is_read(path, entry);
    tensors.push_back({entry.name, torch::empty(entry.shape, entry.dtype)});
    file.read(entry, tensors.back().tensor);
  }
  return tensors;
}

std::vector<TensorEntry> list_safetensors(const fs::path& path) {
  const TensorFile file(path);
  return {file.entries().begin(), file.entries().end()};
}

void read_some_safetensors(const fs::path& path,
                           const std::function<torch::Tensor(const TensorEntry&)>& target) {
  const torch::NoGradGuard no_gradients;
  TensorFile file(path);
  for (const Entry& entry : file.entries()) {
    const torch::Tensor wanted = target(entry);
    if (!wanted.defined()) continue;
    check_type_is_read(path, entry);
    const torch::Tensor staged = torch::empty(entry.shape, entry.dtype);
    file.read(entry, staged);
    wanted.copy_(staged);
  }
}

std::map<std::string, std::string> read_safetensors_metadata(const fs::path& path) {
  return TensorFile(path).metadata();
}

void read_safetensors_into(const fs::path& path, const std::vector<NamedTensor>& live,
                           const std::string& hint) {
  const torch::NoGradGuard no_gradients;
  TensorFile file(path);
  std::map<std::string, torch::Tensor> by_name;
  for (const NamedTensor& item : live) by_name.emplace(item.name, item.tensor);
  check_same_tensors(path, file.entries(), by_name, hint);
  for (const Entry& entry : file.entries()) {
    torch::Tensor& target = by_name.at(entry.name);
    const bool direct = target.is_cpu() && target.is_contiguous() && !counts_for_all(entry, target);
    const torch::Tensor staged = direct ? target : torch::empty(entry.shape, entry.dtype);
    file.read(entry, staged);
    if (!direct) target.copy_(staged);
  }
}

}  // namespace autotrain
