#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "autotrain/error.h"
#include "base/descriptors.h"

namespace autotrain {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& why) {
  throw Error(ExitCode::kMissingFile, path.string(), why,
              "check the path; it is relative to the working directory");
}

class Descriptor {
 public:
  // O_NONBLOCK keeps it from waiting for a writer where the path is a pipe.
  explicit Descriptor(const std::filesystem::path& path)
      : number_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (number_ >= 0) return;
    refuse_limit_of_open_files(path, errno);
    fail(path, std::strerror(errno));
  }
  ~Descriptor() { ::close(number_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int number() const { return number_; }

 private:
  int number_;
};

}  // namespace

MappedFile::MappedFile(std::filesystem::path path) : path_(std::move(path)) {
  const Descriptor file(path_);
  struct stat status {};
  if (::fstat(file.number(), &status) != 0) fail(path_, std::strerror(errno));
  if (!S_ISREG(status.st_mode)) fail(path_, "is not a file");
  if (status.st_size == 0) return;  // nothing to map
  const auto size = static_cast<size_t>(status.st_size);
  void* const start = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.number(), 0);
  if (start == MAP_FAILED) fail(path_, std::strerror(errno));
  bytes_ = {static_cast<const uint8_t*>(start), size};
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})), held_(other.held_) {}

void MappedFile::hold_in_memory() {
  if (bytes_.empty() || held_) return;
  void* const copy =
      ::mmap(nullptr, bytes_.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (copy == MAP_FAILED) throw std::bad_alloc();
  std::memcpy(copy, bytes_.data(), bytes_.size());
  ::munmap(const_cast<uint8_t*>(bytes_.data()), bytes_.size());
  bytes_ = {static_cast<const uint8_t*>(copy), bytes_.size()};
  held_ = true;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<uint8_t*>(bytes_.data()), bytes_.size());
}

}  // namespace autotrain
