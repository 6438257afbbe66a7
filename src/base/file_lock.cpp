#include "base/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <mutex>
#include <utility>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/descriptors.h"
#include "base/files.h"
#include "base/text.h"

namespace autotrain {
namespace {

// The locks that this process holds, with their descriptors.
struct Held {
  std::mutex mutex;
  std::map<const FileLock*, int> descriptors;
};

Held& held() {
  static Held* const held = new Held;  // outlives every static that may hold a lock
  return *held;
}

std::string holder(int descriptor) {
  std::array<char, 32> text = {};
  const ssize_t length = ::pread(descriptor, text.data(), text.size(), 0);
  std::string pid(text.data(), length > 0 ? static_cast<size_t>(length) : 0);
  pid.erase(std::min(pid.find('\n'), pid.size()));
  return pid.empty() ? "another process" : "process " + pid;
}

}  // namespace

FileLock::FileLock(std::filesystem::path path, const std::string& where, const std::string& what,
                   AtEnd at_end)
    : path_(std::move(path)), at_end_(at_end) {
  open_locked(where, what);
  while (at_end_ == AtEnd::kRemove && is_removed()) {
    ::close(descriptor_);
    open_locked(where, what);
  }
  note_process();
  const std::lock_guard guard(held().mutex);
  held().descriptors.emplace(this, descriptor_);
}

// It is removed while it is still locked, so that nobody's lock is.
FileLock::~FileLock() {
  const std::lock_guard guard(held().mutex);
  if (held().descriptors.erase(this) == 0) return;  // of the process that this one is a copy of
  if (at_end_ == AtEnd::kRemove) ::unlink(path_.c_str());
  ::close(descriptor_);
}

void FileLock::open_locked(const std::string& where, const std::string& what) {
  descriptor_ = above_standard(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (descriptor_ < 0) throw_io_error(path_, "opening for writing");
  int result = 0;
  do result = ::flock(descriptor_, LOCK_EX | LOCK_NB);
  while (result != 0 && errno == EINTR);
  if (result == 0) return;
  if (errno == EWOULDBLOCK) {
    const std::string who = holder(descriptor_);
    ::close(descriptor_);
    throw Error(ExitCode::kUsage, where, cat(who, " is writing ", what, " there"),
                "wait until it ends, or give another --output");
  }
  // Some network file systems know no locks; what is written there is as safe as its user is careful.
  log::warn("files", cat(path_.string(), " cannot be locked: keep other processes from writing there"));
}

// Whoever had it may have removed the file between its opening and its locking here.
bool FileLock::is_removed() const {
  struct stat opened = {}, named = {};
  if (::fstat(descriptor_, &opened) != 0) throw_io_error(path_, "reading");
  if (::stat(path_.c_str(), &named) != 0) return true;
  return opened.st_ino != named.st_ino || opened.st_dev != named.st_dev;
}

void FileLock::note_process() const {
  const std::string pid = cat(::getpid(), "\n");
  const bool noted = ::ftruncate(descriptor_, 0) == 0 &&
                     ::pwrite(descriptor_, pid.data(), pid.size(), 0) == static_cast<ssize_t>(pid.size());
  if (!noted) log::debug("files", "the lock file could not take this process's number");
}

pid_t fork_without_locks() {
  const std::lock_guard guard(held().mutex);
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  for (const auto& [lock, descriptor] : std::exchange(held().descriptors, {})) ::close(descriptor);
  return pid;
}

}  // namespace autotrain
