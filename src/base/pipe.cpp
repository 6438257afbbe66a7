#include "base/pipe.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "base/descriptors.h"
#include "base/files.h"

namespace autotrain {

Pipe::Pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw_io_error("pipe", "opening");
  reading_ = above_standard(ends[0]);
  writing_ = above_standard(ends[1]);
  if (reading_ < 0 || writing_ < 0) throw_io_error("pipe", "opening");
}

Pipe::~Pipe() {
  close_writing();
  ::close(reading_);
}

void Pipe::close_writing() {
  if (writing_ >= 0) ::close(std::exchange(writing_, -1));
}

void Pipe::write(const std::string& text) const {
  for (size_t done = 0; done < text.size();) {
    const ssize_t written = ::write(writing_, text.data() + done, text.size() - done);
    if (written < 0 && errno != EINTR) return;
    if (written > 0) done += static_cast<size_t>(written);
  }
}

std::optional<std::string> Pipe::read_line(int timeout_milliseconds) {
  for (;;) {
    if (const size_t end = buffer_.find('\n'); end != std::string::npos) {
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return line;
    }
    pollfd waiting{.fd = reading_, .events = POLLIN, .revents = 0};
    if (::poll(&waiting, 1, timeout_milliseconds) <= 0) return "";
    std::array<char, 4096> bytes;
    const ssize_t count = ::read(reading_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) return "";
    if (count <= 0) return std::nullopt;
    buffer_.append(bytes.data(), static_cast<size_t>(count));
  }
}

}  // namespace autotrain
