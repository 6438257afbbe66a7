#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace autotrain {

/// The whole file. Throws Error(kMissingFile) when it cannot be read.
/// @param largest_bytes refuses larger files, so that a wrong path cannot fill memory.
std::string read_file(const std::filesystem::path& path, int64_t largest_bytes = int64_t{1} << 30);

/// Writes the file and syncs it. Throws Error(kInputOutput); what was written so far then stays.
void write_file(const std::filesystem::path& path, std::string_view content);

/// Replaces `path` so that a reader sees the old or the new content, never a part, even after a
/// power cut: written beside it, synced, renamed, and the folder synced.
/// Throws Error(kInputOutput).
void write_file_atomically(const std::filesystem::path& path, std::string_view content);

/// Renames `made` to `path`, in whose place nobody sees a part of it. Throws Error(kInputOutput) naming
/// `path`.
void rename_into_place(const std::filesystem::path& made, const std::filesystem::path& path);

/// Makes `folder` and its parents. Throws Error(kInputOutput).
void make_folders(const std::filesystem::path& folder);

/// A new folder for temporary files whose name begins so. @throws Error(kInputOutput).
std::filesystem::path make_temporary_folder(const std::string& name);

/// Makes the entries of `folder` (renames, new files) survive a power cut.
/// Throws Error(kInputOutput).
void sync_folder(const std::filesystem::path& folder);

/// A file open for writing; closes on destruction. Every failure throws Error(kInputOutput) with
/// the path and the system's reason.
class OutputFile {
 public:
  enum class Mode { kTruncate, kAppend };
  OutputFile(const std::filesystem::path& path, Mode mode);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::string_view bytes);
  void sync();

 private:
  std::filesystem::path path_;
  int descriptor_;
};

/// Error(kInputOutput) for the current `errno`, with what usually helps.
[[noreturn]] void throw_io_error(const std::filesystem::path& path, std::string_view action);

}  // namespace autotrain
