#include "checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "autotrain/error.h"
#include "base/files.h"
#include "base/text.h"

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

std::string_view dtype_name(torch::ScalarType dtype) {
  for (const DtypeName& row : kDtypes) {
    if (row.dtype == dtype) return row.name;
  }
  throw std::logic_error(cat("tensors of type ", dtype, " cannot be saved"));
}

[[noreturn]] void fail(const fs::path& path, const std::string& what) {
  throw Error(ExitCode::kBadData, path.string(), what, "the file is damaged; use another checkpoint");
}

std::string header_text(const std::vector<NamedTensor>& tensors) {
  Json header = Json::object();
  size_t offset = 0;
  for (const NamedTensor& item : tensors) {
    const size_t end = offset + item.tensor.nbytes();
    const bool fresh = header
                           .emplace(item.name, Json{{"dtype", dtype_name(item.tensor.scalar_type())},
                                                    {"shape", item.tensor.sizes().vec()},
                                                    {"data_offsets", {offset, end}}})
                           .second;
    check_invariant(fresh, "tensors in one file have distinct names");
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // the bytes that follow stay aligned
  return text;
}

// One tensor of the header, checked against the file.
struct Entry {
  std::string name;
  torch::ScalarType dtype;
  std::vector<int64_t> shape;
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

Entry parse_entry(const fs::path& path, const std::string& name, const Json& json, int64_t data_bytes) {
  Entry entry{.name = name, .dtype = torch::kFloat32, .shape = {}};
  try {
    const auto wanted = json.at("dtype").get<std::string>();
    const auto row =
        std::find_if(kDtypes.begin(), kDtypes.end(), [&](const DtypeName& d) { return d.name == wanted; });
    if (row == kDtypes.end())
      fail(path, cat("tensor ", quote(name), " has the unknown type ", quote(wanted)));
    entry.dtype = row->dtype;
    entry.shape = json.at("shape").get<std::vector<int64_t>>();
    entry.begin = json.at("data_offsets").at(0).get<int64_t>();
    entry.end = json.at("data_offsets").at(1).get<int64_t>();
  } catch (const nlohmann::json::exception& error) {
    fail(path, cat("tensor ", quote(name), " has a malformed entry"));
  }
  int64_t bytes = element_count(entry.shape);
  const auto item_bytes = static_cast<int64_t>(c10::elementSize(entry.dtype));
  const bool possible =
      bytes >= 0 && entry.shape.size() <= 64 && !__builtin_mul_overflow(bytes, item_bytes, &bytes);
  const bool inside = entry.begin >= 0 && entry.begin <= entry.end && entry.end <= data_bytes;
  if (!possible || !inside || entry.end - entry.begin != bytes) {
    fail(path, cat("tensor ", quote(name), " claims bytes ", entry.begin, " to ", entry.end, " of ",
                   data_bytes, ", which is not its shape and type"));
  }
  return entry;
}

std::vector<Entry> parse_header(const fs::path& path, const std::string& text, int64_t data_bytes) {
  const Json header = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!header.is_object()) fail(path, "the header is not a JSON object");
  std::vector<Entry> entries;
  for (const auto& [name, json] : header.items()) {
    if (name != "__metadata__") entries.push_back(parse_entry(path, name, json, data_bytes));
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

}  // namespace

void write_safetensors(const fs::path& path, const std::vector<NamedTensor>& tensors) {
  const std::string header = header_text(tensors);
  OutputFile file(path, OutputFile::Mode::kTruncate);
  const uint64_t length = header.size();
  file.write({reinterpret_cast<const char*>(&length), sizeof(length)});
  file.write(header);
  for (const NamedTensor& item : tensors) {
    const torch::Tensor bytes = item.tensor.detach().to(torch::kCPU).contiguous();
    file.write({static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes()});
  }
  file.sync();
}

std::vector<NamedTensor> read_safetensors(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Error(ExitCode::kMissingFile, path.string(), "cannot be read");
  const auto file_bytes = static_cast<uint64_t>(fs::file_size(path));
  uint64_t header_bytes = 0;
  in.read(reinterpret_cast<char*>(&header_bytes), sizeof(header_bytes));
  if (!in) fail(path, "is shorter than a header length");
  if (header_bytes > kLargestHeader || header_bytes > file_bytes - sizeof(header_bytes)) {
    fail(path, cat("claims a header of ", header_bytes, " bytes in a file of ", file_bytes));
  }
  std::string header(header_bytes, '\0');
  in.read(header.data(), static_cast<std::streamsize>(header_bytes));
  const auto data_bytes = static_cast<int64_t>(file_bytes - sizeof(header_bytes) - header_bytes);
  std::vector<NamedTensor> tensors;
  for (const Entry& entry : parse_header(path, header, data_bytes)) {
    torch::Tensor tensor = torch::empty(entry.shape, entry.dtype);
    in.read(static_cast<char*>(tensor.mutable_data_ptr()), entry.end - entry.begin);
    if (!in) fail(path, cat("ends inside tensor ", quote(entry.name)));
    tensors.push_back({entry.name, tensor});
  }
  return tensors;
}

}  // namespace autotrain
