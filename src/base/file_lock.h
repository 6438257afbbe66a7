#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

namespace autotrain {

/// Makes this process the only one that has the file locked until the lock is gone; the system takes it back
/// when the process dies, however it dies. The file names the process.
class FileLock {
 public:
  /// Whether the file stays when its lock is given back. When the process dies, the file stays, and its lock
  /// is free.
  enum class AtEnd { kKeep, kRemove };

  /// @param what is written while it is held, and `where`, as the error says it: "a run".
  /// @throws Error(kUsage) with the process that holds it, Error(kInputOutput).
  FileLock(std::filesystem::path path, const std::string& where, const std::string& what, AtEnd at_end);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  void open_locked(const std::string& where, const std::string& what);
  bool is_removed() const;
  void note_process() const;

  const std::filesystem::path path_;
  const AtEnd at_end_;
  int descriptor_ = -1;
};

/// fork(), whose copy of this process has none of its locks: with them they would be held for as long as the
/// copy lives. What the copy does with their objects has no effect.
pid_t fork_without_locks();

}  // namespace autotrain
