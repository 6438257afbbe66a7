#include "base/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "autotrain/error.h"
#include "base/descriptors.h"
#include "base/file_layer.h"
#include "base/full_disk.h"
#include "base/text.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

std::string io_hint(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT: return "free some space, or give --output a folder on another disk";
    case EROFS:
    case EACCES:
    case EPERM: return "give --output a folder that you may write to";
    case ENAMETOOLONG: return "give --output a shorter path";
    case EMFILE:
    case ENFILE: return kMoreOpenFiles;
    default: return "";
  }
}

}  // namespace

void throw_io_error(const fs::path& path, std::string_view action) {
  const int error = errno;
  const std::string what = cat(action, " failed: ", std::strerror(error));
  if (error == ENOSPC || error == EDQUOT)
    throw NoRoom(ExitCode::kInputOutput, path.string(), what, io_hint(error));
  throw Error(ExitCode::kInputOutput, path.string(), what, io_hint(error));
}

std::string read_file(const fs::path& path, int64_t largest_bytes) {
  WithoutLocale<std::ifstream> in(path, std::ios::binary);
  if (!in) refuse_limit_of_open_files(path);
  std::error_code error;
  if (!in || fs::is_directory(path, error)) {
    const char* const reason = fs::is_directory(path, error) ? "is a folder, not a file"
                               : !fs::exists(path, error)    ? "no such file"
                                                             : "cannot be read";
    throw Error(ExitCode::kMissingFile, path.string(), reason);
  }
  std::string content;
  std::string chunk(1 << 16, '\0');
  while (in.read(chunk.data(), static_cast<std::streamsize>(chunk.size())) || in.gcount() > 0) {
    content.append(chunk, 0, static_cast<size_t>(in.gcount()));
    if (static_cast<int64_t>(content.size()) > largest_bytes) {
      throw Error(ExitCode::kBadData, path.string(),
                  cat("is larger than the ", largest_bytes, " bytes that such a file may have"));
    }
  }
  return content;
}

OutputFile::OutputFile(const fs::path& path, Mode mode) : path_(path) {
  const int how = mode == Mode::kAppend ? O_APPEND : O_TRUNC;
  descriptor_ = file_layer().open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | how);
  if (descriptor_ < 0) throw_io_error(path_, "opening for writing");
}

OutputFile::~OutputFile() {
  ::close(descriptor_);
}

void OutputFile::write(std::string_view bytes) {
  waiting_for_room([&] {
    while (!bytes.empty()) {
      const ssize_t written = file_layer().write(descriptor_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) throw_io_error(path_, "writing");
      bytes.remove_prefix(static_cast<size_t>(written));
    }
  });
}

void OutputFile::sync() {
  if (file_layer().sync(descriptor_) != 0) throw_io_error(path_, "syncing");
}

void sync_folder(const fs::path& folder) {
  const int descriptor = file_layer().open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) throw_io_error(folder, "opening");
  const int result = file_layer().sync(descriptor);
  const int error = errno;
  ::close(descriptor);
  // Some file systems cannot sync a folder and say so; nothing more can be done there.
  if (result != 0 && error != EINVAL && error != ENOTSUP) {
    errno = error;
    throw_io_error(folder, "syncing");
  }
}

void write_file(const fs::path& path, std::string_view content) {
  OutputFile file(path, OutputFile::Mode::kTruncate);
  file.write(content);
  file.sync();
}

void rename_into_place(const fs::path& made, const fs::path& path) {
  if (file_layer().rename(made.c_str(), path.c_str()) != 0) throw_io_error(path, "renaming into place");
}

void write_file_atomically(const fs::path& path, std::string_view content) {
  const fs::path temporary = path.string() + ".tmp";
  try {
    write_file(temporary, content);
    rename_into_place(temporary, path);
  } catch (const Error&) {
    std::error_code ignored;
    fs::remove(temporary, ignored);
    throw;
  }
  sync_folder(path.has_parent_path() ? path.parent_path() : fs::path("."));
}

void make_folders(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    errno = error.value();
    throw_io_error(folder, "making the folder");
  }
}

fs::path make_temporary_folder(const std::string& name) {
  std::error_code error;
  const fs::path parent = fs::temp_directory_path(error);
  if (error) {
    throw Error(ExitCode::kInputOutput, "TMPDIR", "names no folder",
                "unset it, or give it a folder that you may write to");
  }
  std::string path = parent / (name + "-XXXXXX");
  if (::mkdtemp(path.data()) == nullptr) throw_io_error(path, "making a folder");
  return path;
}

}  // namespace autotrain
