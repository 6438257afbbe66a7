#include "base/folder_lock.h"

namespace autotrain {

FolderLock::FolderLock(const std::filesystem::path& folder)
    : lock_(folder / ".lock", folder.string(), "a run", FileLock::AtEnd::kKeep) {}

}  // namespace autotrain
