#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace autotrain {

/// The system calls through which this program writes and reads files: a place to inject the faults of disks.
/// Each that has a namesake in section 2 of the manual has its result and `errno`. Called from several
/// threads.
class FileLayer {
 public:
  virtual ~FileLayer() = default;
  virtual int open(const char* path, int flags);
  virtual ssize_t write(int descriptor, const void* bytes, size_t count);
  virtual ssize_t read(int descriptor, void* bytes, size_t count);
  virtual int sync(int descriptor);
  virtual int truncate(int descriptor, off_t length);
  virtual int rename(const char* from, const char* to);

  /// The two change names in one step (renameat2 with RENAME_EXCHANGE).
  virtual int exchange(const char* from, const char* to);

  /// Returns how many bytes an ordinary user may still write on the disk of `path`; -1 and `errno`: not
  /// known.
  virtual int64_t free_bytes(const char* path);
};

/// The layer in use: the system's own unless a scope put another in its place.
FileLayer& file_layer();

/// Another layer until the scope ends. Scopes nest; no file of the program may be open across an end.
class FileLayerScope {
 public:
  explicit FileLayerScope(FileLayer& layer);
  ~FileLayerScope();
  FileLayerScope(const FileLayerScope&) = delete;
  FileLayerScope& operator=(const FileLayerScope&) = delete;

 private:
  FileLayer* before_;
};

}  // namespace autotrain
