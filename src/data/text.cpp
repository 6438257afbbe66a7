#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "autotrain/error.h"
#include "base/descriptors.h"
#include "base/files.h"
#include "base/mapped_file.h"
#include "base/text.h"
#include "base/units.h"
#include "data/datasets.h"
#include "data/text_look.h"
#include "data/windows.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

constexpr size_t kMostFiles = 512;  // each stays open; the usual limit is 1024

// Files as sequences of bytes, read where needed: a corpus may be larger than memory.
class ByteFiles final : public TokenSource {
 public:
  explicit ByteFiles(const std::vector<fs::path>& paths) {
    for (const fs::path& path : paths) add(path);
  }
  ~ByteFiles() override {
    for (const File& file : files_) ::close(file.descriptor);
  }
  ByteFiles(const ByteFiles&) = delete;
  ByteFiles& operator=(const ByteFiles&) = delete;

  int64_t size() const override { return spans_.items(); }
  int64_t vocabulary() const override { return 256; }

  void read(int64_t first, int64_t count, int64_t* out) const override {
    std::vector<uint8_t> bytes(static_cast<size_t>(count));
    uint8_t* to = bytes.data();
    spans_.for_each_piece(first, count, [&](size_t file, int64_t at, int64_t length) {
      read_file(files_[file], at, to, length);
      to += length;
    });
    std::copy(bytes.begin(), bytes.end(), out);
  }

 private:
  struct File {
    fs::path path;
    int descriptor;
  };

  void add(const fs::path& path) {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) refuse_limit_of_open_files(path, errno);
    if (descriptor < 0) throw Error(ExitCode::kMissingFile, path.string(), std::strerror(errno));
    files_.push_back({path, descriptor});
    const int64_t bytes = ::lseek(descriptor, 0, SEEK_END);
    if (bytes < 0) throw_read_error(path, errno);
    spans_.add(bytes);
  }

  void read_file(const File& file, int64_t at, uint8_t* out, int64_t count) const {
    while (count > 0) {
      const ssize_t got = ::pread(file.descriptor, out, static_cast<size_t>(count), at);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw_read_error(file.path, errno);
      if (got == 0) {
        throw Error(ExitCode::kBadData, cat(file.path.string(), ": offset ", at),
                    "the file became shorter while it was read");
      }
      out += got, at += got, count -= got;
    }
  }

  std::vector<File> files_;
  FileSpans spans_;
};

std::unique_ptr<Dataset> make_text(const DatasetRequest& request) {
  const auto files = matching_files("text", request.parameters.texts("files"));
  if (files.size() > kMostFiles) {
    throw Error(ExitCode::kBadData, "text: files",
                cat(files.size(), " files; at most ", kMostFiles, " at once"),
                "join them into fewer files with cat");
  }
  return make_windows("text", "bytes", request.parameters, std::make_unique<ByteFiles>(files));
}

void look_at_text(const LookRequest& request, DataLook& look) {
  const Parameters& p = request.made_from.parameters;
  int64_t bytes = 0;
  const auto files = matching_files("text", p.texts("files"));
  for (const fs::path& path : files) {
    const MappedFile file(path);
    bytes += std::ssize(file.bytes());
    look_at_text_file(file, request.options.depth, look);
    if (request.options.progress) request.options.progress(&path - files.data() + 1, std::ssize(files));
  }
  look.what =
      cat("text: ", format_count(bytes), " bytes in ", files.size(), files.size() == 1 ? " file" : " files",
          ", ", format_count(request.data.size()), " windows of ", format_count(p.integer("context")));
  doubt_files(request, look);
}

}  // namespace

DatasetRow text_row() {
  return {{"text",
           "Byte-level language modelling over files: a sample is a window of bytes, its target the same "
           "window one byte later.",
           window_keys("bytes")},
          make_text,
          {},
          nullptr,
          "",
          look_at_text,
          {"context"}};
}

}  // namespace autotrain
