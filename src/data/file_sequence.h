#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

namespace autotrain {

struct SampleFile {
  std::string path;
  std::span<const uint8_t> held = {};  ///< its content, when that is in memory already
};

/// Reads some files whole, one after the other, while the kernel is told of the next few, so that a disk
/// works ahead of the decoder.
class FileSequence {
 public:
  explicit FileSequence(std::vector<SampleFile> files) : files_(std::move(files)) {}
  ~FileSequence();
  FileSequence(const FileSequence&) = delete;
  FileSequence& operator=(const FileSequence&) = delete;

  /// The next file's bytes, held or in a buffer of this thread that the next call reuses. Must not be called
  /// more often than there are files.
  /// @param where names the file in errors.
  /// @throws Error(kBadData) when it cannot be read, or is larger than 512 MiB.
  std::span<const uint8_t> next(const std::string& where);

 private:
  void open_ahead();

  // An opened file, or its content, or why it could not be opened.
  struct Opened {
    int descriptor;
    int error;
    std::span<const uint8_t> held;
  };

  std::vector<SampleFile> files_;
  size_t next_to_open_ = 0;
  std::deque<Opened> opened_;
};

}  // namespace autotrain
