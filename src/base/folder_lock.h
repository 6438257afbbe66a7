#pragma once

#include <filesystem>

#include "base/file_lock.h"

namespace autotrain {

/// Makes this process the only writer of a folder until the lock is gone; the system takes it back when the
/// process dies, however it dies. Held through the file `.lock` in it, which names the process.
class FolderLock {
 public:
  /// @throws Error(kUsage) with the process that holds it, Error(kInputOutput).
  explicit FolderLock(const std::filesystem::path& folder);

 private:
  FileLock lock_;
};

}  // namespace autotrain
