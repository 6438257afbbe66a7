#pragma once

#include <filesystem>

namespace autotrain {

/// Makes this process the only writer of a folder until the lock is gone; the system takes it back when the
/// process dies, however it dies. Held through the file `.lock` in it, which names the process.
class FolderLock {
 public:
  /// @throws Error(kUsage) with the process that holds it, Error(kInputOutput).
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_;
};

}  // namespace autotrain
