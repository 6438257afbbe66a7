#include "base/descriptors.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "autotrain/error.h"
#include "base/text.h"

namespace autotrain {

void fill_standard_descriptors() {
  for (int number = STDIN_FILENO; number <= STDERR_FILENO; ++number) {
    if (::fcntl(number, F_GETFD) >= 0 || errno != EBADF) continue;
    const int opened = ::open("/dev/null", O_RDWR);  // the lowest number that is free, which is this one
    if (opened >= 0 && opened != number) ::close(opened);
  }
}

int above_standard(int descriptor) {
  if (descriptor < 0 || descriptor > STDERR_FILENO) return descriptor;
  const int copy = ::fcntl(descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int error = errno;
  ::close(descriptor);
  errno = error;
  return copy;
}

void raise_limit_of_open_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);  // where it is refused, the limit stays
}

bool is_limit_of_open_files(int error) {
  return error == EMFILE || error == ENFILE;
}

void refuse_limit_of_open_files(const std::filesystem::path& path, int error) {
  if (!is_limit_of_open_files(error)) return;
  throw Error(ExitCode::kInputOutput, path.string(), cat("opening failed: ", std::strerror(error)),
              kMoreOpenFiles);
}

void require_open_files(int64_t files, const std::string& what) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= static_cast<rlim_t>(files)) return;
  throw Error(ExitCode::kInputOutput, what,
              cat("needs ", files, " open files at a time, and this process may have ", limit.rlim_cur),
              kMoreOpenFiles);
}

}  // namespace autotrain
