#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/mapped_file.h"

namespace autotrain {

/// Element types of `.npy` files that are read, little endian.
enum class NpyType {
  kBool,
  kUint8,
  kUint16,
  kUint32,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kFloat16,
  kFloat32,
  kFloat64
};

int64_t bytes_of(NpyType type);
const char* name_of(NpyType type);  ///< "float32"

/// An array in NumPy's `.npy` format (versions 1 to 3), mapped: its elements are read when they are used.
/// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
class NpyArray {
 public:
  /// @throws Error(kMissingFile); Error(kBadData) with the offset for a file whose header is not exactly
  /// NumPy's, promises another length than the file has, or names an order or a type that is not read.
  explicit NpyArray(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  NpyType type() const { return type_; }
  bool is_real() const { return type_ >= NpyType::kFloat16; }

  /// At least one dimension, none of them 0.
  const std::vector<int64_t>& shape() const { return shape_; }
  /// "[400, 3, 28, 28]".
  std::string shape_in_words() const;

  int64_t rows() const { return shape_[0]; }
  int64_t row_size() const;  ///< in elements
  int64_t row_bytes() const { return row_size() * bytes_of(type_); }

  /// Byte of the file where the row starts.
  int64_t row_offset(int64_t row) const;

  /// The bytes of a row and all that follow it, not aligned.
  const uint8_t* row(int64_t row) const { return file_.bytes().data() + row_offset(row); }

  /// What `hold_in_memory` takes; 0 after it.
  int64_t mapped_bytes() const {
    return file_.held_in_memory() ? 0 : static_cast<int64_t>(file_.bytes().size());
  }

  /// Copies the file to memory; earlier results of `row` are no longer valid.
  void hold_in_memory() { file_.hold_in_memory(); }

 private:
  MappedFile file_;
  NpyType type_;
  std::vector<int64_t> shape_;
  int64_t data_offset_;
};

}  // namespace autotrain
