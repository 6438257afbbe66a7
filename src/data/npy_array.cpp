#include "data/npy_array.h"

#include <array>
#include <functional>
#include <numeric>

#include "autotrain/error.h"
#include "base/text.h"
#include "base/units.h"
#include "data/npy_header.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

struct TypeRow {
  NpyType type;
  const char* code;  // of descr, after the mark of the byte order
  const char* name;
  int64_t bytes;
};

constexpr std::array<TypeRow, 11> kTypes = {{{NpyType::kBool, "b1", "bool", 1},
                                             {NpyType::kUint8, "u1", "uint8", 1},
                                             {NpyType::kUint16, "u2", "uint16", 2},
                                             {NpyType::kUint32, "u4", "uint32", 4},
                                             {NpyType::kInt8, "i1", "int8", 1},
                                             {NpyType::kInt16, "i2", "int16", 2},
                                             {NpyType::kInt32, "i4", "int32", 4},
                                             {NpyType::kInt64, "i8", "int64", 8},
                                             {NpyType::kFloat16, "f2", "float16", 2},
                                             {NpyType::kFloat32, "f4", "float32", 4},
                                             {NpyType::kFloat64, "f8", "float64", 8}}};

const TypeRow& row_of(NpyType type) {
  return kTypes[static_cast<size_t>(type)];
}

NpyType type_of(const fs::path& path, const std::string& descr) {
  std::vector<std::string> names;
  for (const TypeRow& row : kTypes) {
    names.emplace_back(row.name);
    const bool order = descr.starts_with('<') || descr.starts_with('=') || descr.starts_with('|');
    if (order && descr.substr(1) == row.code) return row.type;
  }
  const bool swapped = descr.starts_with('>'), objects = descr.ends_with('O');
  const bool words = descr.size() > 1 && (descr[1] == 'U' || descr[1] == 'S');
  throw Error(ExitCode::kBadData, path.string(),
              swapped ? cat("the elements are big endian, ", quote(descr))
              : objects || words
                  ? cat("the elements are ", words ? "texts" : "objects of Python", ", ", quote(descr))
                  : cat("elements of type ", quote(descr), " are not read"),
              swapped ? "save it again: numpy.save(path, array.astype(array.dtype.newbyteorder('<')))"
              : objects || words
                  ? "save numpy.unique(array, return_inverse=True)[1] of classes, array.astype('float32') of "
                    "numbers"
                  : cat("save it again as one of ", join(names, ", "), " with array.astype"));
}

// Bytes of the elements, or -1 when they do not fit.
int64_t content_bytes(const NpyHeader& header, NpyType type) {
  int64_t bytes = row_of(type).bytes;
  for (const int64_t size : header.shape) {
    if (__builtin_mul_overflow(bytes, size, &bytes)) return -1;
  }
  return bytes;
}

void check_layout(const fs::path& path, const NpyHeader& header) {
  if (header.fortran_order && header.shape.size() > 1) {
    throw Error(ExitCode::kBadData, path.string(), "the array is stored by columns (fortran_order: True)",
                "save it again: numpy.save(path, numpy.ascontiguousarray(array))");
  }
  for (const int64_t size : header.shape) {
    if (size == 0) throw Error(ExitCode::kBadData, path.string(), "the array has no elements");
  }
  if (header.shape.empty()) {
    throw Error(ExitCode::kBadData, path.string(), "holds one number, not an array of samples",
                "the first dimension counts the samples");
  }
}

void check_length(const fs::path& path, const NpyHeader& header, NpyType type, int64_t file_bytes) {
  const int64_t promised = content_bytes(header, type);
  const int64_t there = file_bytes - header.data_offset;
  if (promised == there) return;
  std::vector<std::string> sizes;
  for (const int64_t size : header.shape) sizes.push_back(std::to_string(size));
  throw Error(ExitCode::kBadData, cat(path.string(), ": offset ", header.data_offset),
              cat("the header promises ", join(sizes, " × "), " elements of ", row_of(type).name,
                  promised < 0 ? "" : cat(", ", format_count(promised), " bytes"), "; ", format_count(there),
                  " bytes are there"),
              "the file is cut short or damaged; write it again");
}

}  // namespace

NpyArray::NpyArray(const fs::path& path) : file_(path) {
  NpyHeader header = parse_npy_header(path, file_.bytes());
  type_ = type_of(path, header.descr);
  check_layout(path, header);
  check_length(path, header, type_, static_cast<int64_t>(file_.bytes().size()));
  shape_ = std::move(header.shape);
  data_offset_ = header.data_offset;
}

int64_t NpyArray::row_size() const {
  return std::accumulate(shape_.begin() + 1, shape_.end(), int64_t{1}, std::multiplies<>());
}

int64_t NpyArray::row_offset(int64_t row) const {
  return data_offset_ + row * row_bytes();
}

std::string NpyArray::shape_in_words() const {
  std::vector<std::string> sizes;
  for (const int64_t size : shape_) sizes.push_back(std::to_string(size));
  return cat("[", join(sizes, ", "), "]");
}

const char* name_of(NpyType type) {
  return row_of(type).name;
}

int64_t bytes_of(NpyType type) {
  return row_of(type).bytes;
}

}  // namespace autotrain
