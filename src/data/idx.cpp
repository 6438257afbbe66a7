#include "data/idx.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>

#include "autotrain/error.h"
#include "base/descriptors.h"
#include "base/files.h"
#include "base/text.h"
#include "base/units.h"
#include "data/shape_text.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

constexpr uint32_t kUnsignedByte = 0x08;
constexpr int64_t kLargestDeflateRatio = 1032;  // no deflate stream expands further

[[noreturn]] void fail(const fs::path& path, int64_t offset, const std::string& what) {
  throw Error(ExitCode::kBadData, cat(path.string(), ": offset ", offset), what,
              "the file is damaged or not what it claims to be; get it again");
}

// A plain or gzipped file as a sequence of bytes.
class ByteReader {
 public:
  explicit ByteReader(const fs::path& path) : path_(path), file_(::gzopen(path.c_str(), "rb"), &::gzclose) {
    if (file_ == nullptr) refuse_limit_of_open_files(path, errno);
    if (file_ == nullptr) throw Error(ExitCode::kMissingFile, path.string(), "cannot be read");
    ::gzbuffer(file_.get(), 1 << 18);
  }

  // Reads as many bytes as there are, up to `bytes`.
  int64_t read(void* destination, int64_t bytes) {
    int64_t done = 0;
    while (done < bytes) {
      const auto step = static_cast<unsigned>(std::min<int64_t>(bytes - done, 1 << 30));
      const int got = ::gzread(file_.get(), static_cast<char*>(destination) + done, step);
      // A stream that is cut inside its checksum reads as ended, with the error beside it.
      if (got < 0 || (got == 0 && error_code() != Z_OK)) {
        fail_reading(offset_ + done);
      }
      if (got == 0) break;
      done += got;
    }
    offset_ += done;
    return done;
  }

  int64_t offset() const { return offset_; }
  bool gzipped() const { return ::gzdirect(file_.get()) == 0; }

 private:
  int error_code() const {
    int code = Z_OK;
    ::gzerror(file_.get(), &code);
    return code;
  }

  [[noreturn]] void fail_reading(int64_t offset) const {
    const int error = errno;
    int code = Z_OK;
    const char* const text = ::gzerror(file_.get(), &code);
    if (code == Z_ERRNO) throw_read_error(path_, error);
    fail(path_, offset, cat("damaged gzip data: ", text == nullptr ? "unknown" : text));
  }

  fs::path path_;
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file_;
  int64_t offset_ = 0;
};

uint32_t read_word(ByteReader& reader, const fs::path& path, const char* what) {
  std::array<uint8_t, 4> bytes{};
  const int64_t at = reader.offset();
  if (reader.read(bytes.data(), 4) != 4)
    fail(path, at, cat("the file ends inside its header, at the ", what));
  return static_cast<uint32_t>(bytes[0]) << 24 | static_cast<uint32_t>(bytes[1]) << 16 |
         static_cast<uint32_t>(bytes[2]) << 8 | bytes[3];
}

// "images of 28 × 28": what the header of so many dimensions is about.
const char* subject(size_t dimensions) {
  return dimensions == 3 ? "images" : "labels";
}

std::vector<int64_t> read_shape(ByteReader& reader, const fs::path& path, size_t dimensions) {
  const uint32_t magic = read_word(reader, path, "magic number");
  const uint32_t expected = kUnsignedByte << 8 | static_cast<uint32_t>(dimensions);
  if (magic != expected) {
    fail(path, 0,
         cat("the magic number is ", magic, "; ", subject(dimensions), " have ", expected,
             " (unsigned bytes in ", dimensions, " dimension(s))"));
  }
  std::vector<int64_t> shape;
  for (size_t i = 0; i < dimensions; ++i) {
    const int64_t at = reader.offset();
    shape.push_back(read_word(reader, path, i == 0 ? "count" : "image size"));
    if (shape.back() == 0) fail(path, at, cat("dimension ", i, " is 0"));
  }
  return shape;
}

// Bytes of the content, or -1 when the product does not fit.
int64_t content_bytes(const std::vector<int64_t>& shape) {
  int64_t bytes = 1;
  for (const int64_t size : shape) {
    if (__builtin_mul_overflow(bytes, size, &bytes)) return -1;
  }
  return bytes;
}

void check_room(const ByteReader& reader, const fs::path& path, const std::vector<int64_t>& shape) {
  const auto file_bytes = static_cast<int64_t>(fs::file_size(path));
  const int64_t most = reader.gzipped() ? file_bytes * kLargestDeflateRatio : file_bytes - reader.offset();
  const int64_t promised = content_bytes(shape);
  if (promised >= 0 && promised <= most) return;
  fail(path, 4,
       cat("the header promises ", shape_text(shape), " bytes",
           promised < 0 ? "" : cat(" (", format_bytes(promised), ")"), "; a file of ",
           format_bytes(file_bytes), " cannot hold that"));
}

// The content of a gzipped file is counted before it is stored: its header may promise anything.
void check_gzip_length(const fs::path& path, int64_t expected) {
  ByteReader reader(path);
  std::array<char, 1 << 16> chunk;
  int64_t total = 0;
  for (int64_t got; (got = reader.read(chunk.data(), static_cast<int64_t>(chunk.size()))) > 0;) total += got;
  if (total != expected) {
    fail(path, total, cat("the content has ", total, " bytes; the header promises ", expected));
  }
}

// The last four bytes of a gzip file: its content's length modulo 2³², if it is one stream.
bool trailer_agrees(const fs::path& path, int64_t expected) {
  InputFile in(path);
  std::array<unsigned char, 4> bytes{};
  in.seek(std::max<int64_t>(0, in.size() - 4));
  if (in.read(bytes.data(), bytes.size()) < bytes.size()) return false;
  const uint32_t length = static_cast<uint32_t>(bytes[0]) | static_cast<uint32_t>(bytes[1]) << 8 |
                          static_cast<uint32_t>(bytes[2]) << 16 | static_cast<uint32_t>(bytes[3]) << 24;
  return length == static_cast<uint32_t>(expected);
}

}  // namespace

torch::Tensor read_idx(const fs::path& path, size_t dimensions) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) throw Error(ExitCode::kMissingFile, path.string(), "no such file");
  ByteReader reader(path);
  const std::vector<int64_t> shape = read_shape(reader, path, dimensions);
  check_room(reader, path, shape);
  const int64_t bytes = content_bytes(shape);
  const int64_t whole = reader.offset() + bytes;
  if (reader.gzipped() && !trailer_agrees(path, whole)) check_gzip_length(path, whole);

  torch::Tensor content = torch::empty(shape, torch::kUInt8);
  const int64_t got = reader.read(content.mutable_data_ptr(), bytes);
  if (got != bytes) {
    fail(path, reader.offset(),
         cat("the file ends after ", got, " of the ", bytes, " bytes of ", shape_text(shape),
             " that its header promises"));
  }
  char extra = 0;
  if (reader.read(&extra, 1) != 0) {
    fail(path, whole,
         cat("the file goes on after the ", bytes, " bytes of ", shape_text(shape),
             " that its header promises"));
  }
  return content;
}

}  // namespace autotrain
