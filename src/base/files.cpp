#include "base/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "autotrain/error.h"
#include "base/descriptors.h"
#include "base/file_layer.h"
#include "base/full_disk.h"
#include "base/text.h"
#include "base/without_locale.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

constexpr size_t kChunkBytes = size_t{1} << 16;

// Whether the user's umask takes from the user's own files what is needed to use them.
bool umask_locks_out() {
  constexpr std::string_view kName = "Umask:";
  WithoutLocale<std::ifstream> in("/proc/self/status");
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(kName)) continue;
    const std::string_view digits = trim(std::string_view(line).substr(kName.size()));
    unsigned mask = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), mask, 8);
    return (mask & S_IRWXU) != 0;
  }
  return false;
}

std::string io_hint(int error) {
  if ((error == EACCES || error == EPERM) && umask_locks_out())
    return "the umask takes your own rights from what you make: umask 022";
  switch (error) {
    case ENOSPC:
    case EDQUOT: return "free some space, or give --output a folder on another disk";
    case EROFS:
    case EACCES:
    case EPERM: return "give --output a folder that you may write to";
    case ENAMETOOLONG: return "give --output a shorter path";
    case EFBIG: return "raise the limit on the size of files (ulimit -f)";
    case EAGAIN: return "raise the limit on processes and threads (ulimit -u, pids.max of the cgroup)";
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

void throw_read_error(const fs::path& path, int error) {
  throw Error(ExitCode::kInputOutput, path.string(), cat("reading failed: ", std::strerror(error)),
              is_limit_of_open_files(error) ? kMoreOpenFiles
                                            : "check the disk, or the network that the file is behind");
}

std::string read_file(const fs::path& path, int64_t largest_bytes) {
  InputFile in(path);
  std::string content;
  std::string chunk(kChunkBytes, '\0');
  while (const size_t got = in.read(chunk.data(), chunk.size())) {
    content.append(chunk, 0, got);
    if (static_cast<int64_t>(content.size()) > largest_bytes) {
      throw Error(ExitCode::kBadData, path.string(),
                  cat("is larger than the ", largest_bytes, " bytes that such a file may have"));
    }
  }
  return content;
}

void cut_lines(const fs::path& path, int64_t keep_bytes) {
  int64_t kept = 0;
  for_each_line_backwards(path, 0, keep_bytes, [&](std::string_view, int64_t end) {
    kept = end;
    return false;
  });
  OutputFile file(path, OutputFile::Mode::kChange);
  file.truncate(kept);
  file.sync();
}

void for_each_line(const fs::path& path, const std::function<void(std::string_view)>& use) {
  InputFile in(path);
  std::string text;  // that was read and not used yet
  std::string chunk(kChunkBytes, '\0');
  while (const size_t got = in.read(chunk.data(), chunk.size())) {
    size_t searched = text.size(), begin = 0;
    text.append(chunk, 0, got);
    for (size_t end; (end = text.find('\n', searched)) != std::string::npos; begin = searched = end + 1)
      use(std::string_view(text).substr(begin, end - begin));
    text.erase(0, begin);
  }
  if (!text.empty()) use(text);
}

void for_each_line_backwards(const fs::path& path, int64_t begin, int64_t end,
                             const std::function<bool(std::string_view, int64_t)>& use) {
  InputFile in(path);
  int64_t at = std::min(end, in.size());
  std::string text;  // the file's from `at` to the end of the line that is next
  bool torn = true;  // that line's end was not met yet
  while (true) {
    size_t before = std::string::npos;  // the end of the line before it
    if (torn) before = text.rfind('\n');
    if (!torn && text.size() > 1) before = text.rfind('\n', text.size() - 2);
    if (before == std::string::npos && at > begin) {
      std::string chunk(static_cast<size_t>(std::min<int64_t>(kChunkBytes, at - begin)), '\0');
      at -= std::ssize(chunk);
      in.seek(at);
      in.read(chunk.data(), chunk.size());
      text.insert(0, chunk);
      continue;
    }
    const size_t start = before == std::string::npos ? 0 : before + 1;
    if (!torn) {
      const std::string_view line(text.data() + start, text.size() - 1 - start);
      if (!use(line, at + std::ssize(text))) return;
    }
    if (before == std::string::npos) return;
    text.resize(start);
    torn = false;
  }
}

InputFile::InputFile(const fs::path& path) : path_(path) {
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) {
    const bool of_the_file = !is_limit_of_open_files(errno) && errno != ENOMEM && errno != EIO;
    if (!of_the_file) throw_read_error(path_, errno);
    throw Error(ExitCode::kMissingFile, path.string(),
                errno == ENOENT ? "no such file" : cat("cannot be read: ", std::strerror(errno)));
  }
  struct stat status = {};
  if (::fstat(descriptor_, &status) == 0 && S_ISDIR(status.st_mode)) {
    ::close(descriptor_);
    throw Error(ExitCode::kMissingFile, path.string(), "is a folder, not a file");
  }
  size_ = status.st_size;
}

InputFile::~InputFile() {
  ::close(descriptor_);
}

size_t InputFile::read(void* bytes, size_t count) {
  size_t done = 0;
  while (done < count) {
    const ssize_t got = file_layer().read(descriptor_, static_cast<char*>(bytes) + done, count - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_read_error(path_, errno);
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

void InputFile::seek(int64_t offset) {
  if (::lseek(descriptor_, offset, SEEK_SET) < 0) throw_read_error(path_, errno);
}

OutputFile::OutputFile(const fs::path& path, Mode mode) : path_(path) {
  const int how = mode == Mode::kAppend     ? O_CREAT | O_APPEND
                  : mode == Mode::kTruncate ? O_CREAT | O_TRUNC
                                            : 0;  // a file that is there
  descriptor_ = file_layer().open(path.c_str(), O_WRONLY | O_CLOEXEC | how);
  if (descriptor_ < 0) throw_io_error(path_, "opening for writing");
}

OutputFile::~OutputFile() {
  ::close(descriptor_);
}

// Who reads on finds whole lines: a part that was written before a failure is taken back, as far as that can
// be.
void OutputFile::write(std::string_view bytes) {
  size_t done = 0;
  try {
    waiting_for_room([&] {
      while (done < bytes.size()) {
        const ssize_t written = file_layer().write(descriptor_, bytes.data() + done, bytes.size() - done);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) throw_io_error(path_, "writing");
        done += static_cast<size_t>(written);
      }
    });
  } catch (const Error&) {
    const off_t end = ::lseek(descriptor_, 0, SEEK_END);
    if (done > 0 && end >= static_cast<off_t>(done))
      file_layer().truncate(descriptor_, end - static_cast<off_t>(done));
    throw;
  }
}

void OutputFile::sync() {
  if (file_layer().sync(descriptor_) != 0) throw_io_error(path_, "syncing");
}

void OutputFile::truncate(int64_t bytes) {
  if (file_layer().truncate(descriptor_, bytes) != 0) throw_io_error(path_, "shortening");
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

void remove_file(const fs::path& path) {
  std::error_code error;
  fs::remove(path, error);
  if (!error) return;
  errno = error.value();
  throw_io_error(path, "removing");
}

}  // namespace autotrain
