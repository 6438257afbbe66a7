#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace autotrain {

/// The whole file. Throws as InputFile does.
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

/// Shortens a file, in place, to the whole lines among its first `keep_bytes`. A crash meanwhile leaves it as
/// it was or shortened. Throws Error(kInputOutput).
void cut_lines(const std::filesystem::path& path, int64_t keep_bytes);

/// Calls `use` with each line of a file, without its end, as it is read. Throws as InputFile does.
void for_each_line(const std::filesystem::path& path, const std::function<void(std::string_view line)>& use);

/// Calls `use` with each whole line between two offsets, the last one first, for as long as it returns true.
/// @param begin where a line begins.
/// @param use   is told the offset behind the line's end, too.
void for_each_line_backwards(const std::filesystem::path& path, int64_t begin, int64_t end,
                             const std::function<bool(std::string_view line, int64_t end)>& use);

/// Makes `folder` and its parents. Throws Error(kInputOutput).
void make_folders(const std::filesystem::path& folder);

/// A new folder for temporary files whose name begins so. @throws Error(kInputOutput).
std::filesystem::path make_temporary_folder(const std::string& name);

/// Makes the entries of `folder` (renames, new files) survive a power cut.
/// Throws Error(kInputOutput).
void sync_folder(const std::filesystem::path& folder);

/// A file open for reading; closes on destruction.
class InputFile {
 public:
  /// @throws Error(kMissingFile) when there is no file that may be read, Error(kInputOutput) when it cannot
  /// be opened for a reason that says nothing of it, such as too many open files.
  explicit InputFile(const std::filesystem::path& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  /// Reads as many bytes as there are, up to `count`; fewer come only at the end of the file, for a failure
  /// is no end. @throws Error(kInputOutput).
  size_t read(void* bytes, size_t count);

  /// Reading goes on there. @throws Error(kInputOutput).
  void seek(int64_t offset);

  /// Its size in bytes; 0 of what has none, such as a pipe.
  int64_t size() const { return size_; }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  int64_t size_ = 0;
};

/// A file open for writing; closes on destruction. Every failure throws Error(kInputOutput) with
/// the path and the system's reason.
class OutputFile {
 public:
  enum class Mode { kTruncate, kAppend, kChange };
  OutputFile(const std::filesystem::path& path, Mode mode);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::string_view bytes);
  void sync();

  /// Makes the file this long.
  void truncate(int64_t bytes);

 private:
  std::filesystem::path path_;
  int descriptor_;
};

/// Error(kInputOutput) for a file that could not be read to its end.
[[noreturn]] void throw_read_error(const std::filesystem::path& path, int error);

/// Error(kInputOutput) for the current `errno`, with what usually helps.
[[noreturn]] void throw_io_error(const std::filesystem::path& path, std::string_view action);

/// Removes a file, if it is there. @throws Error(kInputOutput) where it stays.
void remove_file(const std::filesystem::path& path);

}  // namespace autotrain
