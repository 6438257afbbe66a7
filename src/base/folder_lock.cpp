#include "base/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/files.h"
#include "base/text.h"

namespace autotrain {
namespace {

std::string holder(int descriptor) {
  std::array<char, 32> text = {};
  const ssize_t length = ::pread(descriptor, text.data(), text.size(), 0);
  std::string pid(text.data(), length > 0 ? static_cast<size_t>(length) : 0);
  pid.erase(std::min(pid.find('\n'), pid.size()));
  return pid.empty() ? "another process" : "process " + pid;
}

}  // namespace

FolderLock::FolderLock(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / ".lock";
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) throw_io_error(path, "opening for writing");
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    if (error == EWOULDBLOCK) {
      const std::string who = holder(descriptor_);
      ::close(descriptor_);
      throw Error(ExitCode::kUsage, folder.string(), who + " is writing a run there",
                  "wait until it ends, or give another --output");
    }
    // Some network file systems know no locks; a run there is as safe as its user is careful.
    log::warn("trainer", cat(folder.string(), " cannot be locked: keep other runs out of it"));
  }
  const std::string pid = cat(::getpid(), "\n");
  const bool noted = ::ftruncate(descriptor_, 0) == 0 &&
                     ::pwrite(descriptor_, pid.data(), pid.size(), 0) == static_cast<ssize_t>(pid.size());
  if (!noted) log::debug("trainer", "the lock file could not take this process's number");
}

FolderLock::~FolderLock() {
  ::close(descriptor_);
}

}  // namespace autotrain
