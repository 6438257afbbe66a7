#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

namespace autotrain {

/// A file mapped into memory for reading: larger than memory if need be, and no part of a memory budget. Its
/// bytes stay where they are while this object lives, wherever the object is moved. The file must not become
/// shorter meanwhile: the system ends a process that reads beyond the new end (SIGBUS).
class MappedFile {
 public:
  /// @throws Error(kMissingFile) when it is no regular file or cannot be read.
  explicit MappedFile(std::filesystem::path path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;

  /// Puts a copy in memory of its own in the map's place; `bytes` are elsewhere afterwards.
  /// @throws std::bad_alloc.
  void hold_in_memory();
  bool held_in_memory() const { return held_; }

  const std::filesystem::path& path() const { return path_; }
  std::span<const uint8_t> bytes() const { return bytes_; }

 private:
  std::filesystem::path path_;
  std::span<const uint8_t> bytes_;
  bool held_ = false;
};

}  // namespace autotrain
