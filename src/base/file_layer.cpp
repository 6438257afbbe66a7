#include "base/file_layer.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>

#include "base/descriptors.h"

namespace autotrain {
namespace {

constexpr mode_t kMode = 0666;  // less the user's umask

FileLayer& system_layer() {
  static FileLayer layer;
  return layer;
}

std::atomic<FileLayer*> in_use{nullptr};

}  // namespace

int FileLayer::open(const char* path, int flags) {
  return above_standard(::open(path, flags, kMode));
}

ssize_t FileLayer::write(int descriptor, const void* bytes, size_t count) {
  return ::write(descriptor, bytes, count);
}

ssize_t FileLayer::read(int descriptor, void* bytes, size_t count) {
  return ::read(descriptor, bytes, count);
}

int FileLayer::sync(int descriptor) {
  return ::fsync(descriptor);
}

int FileLayer::truncate(int descriptor, off_t length) {
  return ::ftruncate(descriptor, length);
}

int FileLayer::rename(const char* from, const char* to) {
  return ::rename(from, to);
}

int FileLayer::exchange(const char* from, const char* to) {
  return ::renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE);
}

int64_t FileLayer::free_bytes(const char* path) {
  struct statvfs disk {};
  if (::statvfs(path, &disk) != 0) return -1;
  return static_cast<int64_t>(disk.f_bavail) * static_cast<int64_t>(disk.f_frsize);
}

FileLayer& file_layer() {
  FileLayer* const layer = in_use.load();
  return layer != nullptr ? *layer : system_layer();
}

FileLayerScope::FileLayerScope(FileLayer& layer) : before_(in_use.exchange(&layer)) {}

FileLayerScope::~FileLayerScope() {
  in_use = before_;
}

}  // namespace autotrain
