#include "data/file_sequence.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "autotrain/error.h"
#include "base/descriptors.h"
#include "base/text.h"
#include "base/units.h"

namespace autotrain {
namespace {

constexpr size_t kFilesAhead = 4;
constexpr int64_t kLargestFile = 512 * kMiB;

// Closes on destruction.
struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
};

// A file that is not there is a bad sample; a disk that fails for a moment, or a process with too many open
// files, says nothing about the sample.
[[noreturn]] void fail_reading(const std::string& where, int error) {
  const bool of_the_file = error == ENOENT || error == EACCES || error == EISDIR || error == ELOOP;
  throw Error(of_the_file ? ExitCode::kBadData : ExitCode::kInputOutput, where,
              cat("cannot be read: ", std::strerror(error)),
              is_limit_of_open_files(error) ? kMoreOpenFiles : "");
}

std::span<const uint8_t> read_whole(int descriptor, const std::string& where) {
  thread_local std::vector<uint8_t> buffer;
  const int64_t bytes = ::lseek(descriptor, 0, SEEK_END);
  if (bytes < 0) fail_reading(where, errno);
  if (bytes > kLargestFile) {
    throw Error(ExitCode::kBadData, where, cat("is ", format_bytes(bytes), " large"),
                cat("files of samples may have ", format_bytes(kLargestFile)));
  }
  if (buffer.size() < static_cast<size_t>(bytes)) buffer.resize(static_cast<size_t>(bytes));
  int64_t done = 0;
  while (done < bytes) {
    const ssize_t got = ::pread(descriptor, buffer.data() + done, static_cast<size_t>(bytes - done), done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_reading(where, errno);
    if (got == 0) break;  // it became shorter: the decoder says so
    done += got;
  }
  return {buffer.data(), static_cast<size_t>(done)};
}

}  // namespace

FileSequence::~FileSequence() {
  for (const Opened& file : opened_) const Descriptor closed{file.descriptor};
}

void FileSequence::open_ahead() {
  while (next_to_open_ < files_.size() && opened_.size() <= kFilesAhead) {
    const SampleFile& file = files_[next_to_open_++];
    const int descriptor = file.held.empty() ? ::open(file.path.c_str(), O_RDONLY | O_CLOEXEC) : -1;
    opened_.push_back({descriptor, errno, file.held});
    if (descriptor >= 0) ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_WILLNEED);
  }
}

std::span<const uint8_t> FileSequence::next(const std::string& where) {
  open_ahead();
  const Opened file = opened_.front();
  opened_.pop_front();
  if (!file.held.empty()) return file.held;
  if (file.descriptor < 0) fail_reading(where, file.error);
  const Descriptor closing{file.descriptor};
  return read_whole(file.descriptor, where);
}

}  // namespace autotrain
