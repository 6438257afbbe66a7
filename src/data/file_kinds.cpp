#include "data/file_kinds.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "base/text.h"

namespace autotrain {
namespace {

using namespace std::string_view_literals;

struct Start {
  std::string_view bytes;
  const char* name;
  const char* cure;
};

constexpr const char* kUnpack = "unpack it first";
constexpr const char* kCutHeader = "cut its header of 1,024 bytes off: tail -c +1025 FILE";

// The numbers in llm.c's headers are written little endian.
constexpr std::array<Start, 12> kFiles = {
    {{"\x93NUMPY"sv, "a .npy file",
      "write its numbers alone: numpy.load(path).astype('uint16').tofile(path)"},
     {"\x1f\x8b"sv, "a gzip file", kUnpack},
     {"PK\x03\x04"sv, "a zip archive", kUnpack},
     {"\x28\xb5\x2f\xfd"sv, "a Zstandard file", kUnpack},
     {"BZh"sv, "a bzip2 file", kUnpack},
     {"\xfd"
      "7zXZ"sv,
      "an xz file", kUnpack},
     {"\x89HDF\r\n"sv, "an HDF5 file", "write its tokens alone, with numpy's tofile"},
     {"PAR1"sv, "a Parquet file", "write its tokens alone, with numpy's tofile"},
     {"ARROW1"sv, "an Arrow file", "write its tokens alone, with numpy's tofile"},
     {"MMIDIDX\0"sv, "an index of Megatron's", "name the .bin file that lies beside it"},
     {"\x88\xd8\x34\x01"sv, "a file of llm.c's with a header", kCutHeader},
     {"\xa1\xd9\x34\x01"sv, "a file of llm.c's with a header", kCutHeader}}};

constexpr std::array<Start, 5> kEncodings = {
    {{"\xef\xbb\xbf"sv, "a byte order mark", "cut it off: tail -c +4 FILE"},
     {"\xff\xfe\0\0"sv, "UTF-32", "convert it: iconv -f UTF-32 -t UTF-8 FILE"},
     {"\0\0\xfe\xff"sv, "UTF-32", "convert it: iconv -f UTF-32 -t UTF-8 FILE"},
     {"\xff\xfe"sv, "UTF-16", "convert it: iconv -f UTF-16 -t UTF-8 FILE"},
     {"\xfe\xff"sv, "UTF-16", "convert it: iconv -f UTF-16 -t UTF-8 FILE"}}};

template <size_t n>
FileKind find(const std::array<Start, n>& starts, std::span<const uint8_t> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto found = std::ranges::find_if(starts, [&](const Start& s) { return text.starts_with(s.bytes); });
  return found == starts.end() ? FileKind{""} : FileKind{found->name, found->cure};
}

// Bytes of a character by its first; 0: none begins so. The least character that needs so many.
struct Length {
  size_t bytes = 0;
  uint32_t least = 0;
};

Length length_of(uint8_t first) {
  if (first < 0x80) return {1, 0};
  if (first >= 0xc2 && first < 0xe0) return {2, 0x80};
  if (first >= 0xe0 && first < 0xf0) return {3, 0x800};
  if (first >= 0xf0 && first < 0xf5) return {4, 0x10000};
  return {};
}

// Bytes of the character at the start of `bytes`, which may end inside it; 0: there is none.
size_t character(std::span<const uint8_t> bytes) {
  const auto [length, least] = length_of(bytes[0]);
  if (length <= 1) return length;
  uint32_t code = bytes[0] & (0x7fU >> length);
  for (size_t i = 1; i < length; ++i) {
    if (i == bytes.size()) return i;
    if ((bytes[i] & 0xc0) != 0x80) return 0;
    code = code << 6 | (bytes[i] & 0x3fU);
  }
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  return code < least || surrogate || code > 0x10ffff ? 0 : length;
}

}  // namespace

FileKind kind_of_file(std::span<const uint8_t> bytes) {
  return find(kFiles, bytes);
}

FileKind format_of_text(std::string_view text) {
  text = trim(without_byte_order_mark(text));
  if (text.starts_with("version https://git-lfs"))
    return {"a pointer of Git LFS to the file", "get the file itself: git lfs pull"};
  if (text.starts_with("%PDF-")) return {"a PDF file", "take its text out: pdftotext FILE"};
  const std::string start = lower(text.substr(0, 16));
  if (start.starts_with("<!doctype") || start.starts_with("<html") || start.starts_with("<?xml"))
    return {"a page of HTML or XML",
            "get the file itself: a download may have ended at a page that says why"};
  const auto begins = [](std::string_view rest, char mark) {
    if (!rest.starts_with(mark)) return std::string_view();
    return trim(rest.substr(1));
  };
  const std::string_view object = text.starts_with('[') ? begins(text, '[') : text;
  if (begins(object, '{').starts_with('"'))
    return {"JSON", "take its texts out, such as by jq -r .text FILE > NEW"};
  return {""};
}

FileKind encoding_of_text(std::span<const uint8_t> bytes) {
  return find(kEncodings, bytes);
}

size_t first_invalid_utf8(std::span<const uint8_t> bytes, size_t from) {
  for (size_t at = from; at < bytes.size();) {
    const size_t length = character(bytes.subspan(at));
    if (length == 0) return at;
    at += length;
  }
  return bytes.size();
}

bool is_text(std::span<const uint8_t> bytes) {
  const auto is_control = [](uint8_t b) { return b == 0x7f || (b < 0x20 && (b < '\t' || b > '\r')); };
  return bytes.size() >= 64 && std::ranges::none_of(bytes, is_control) &&
         first_invalid_utf8(bytes) == bytes.size();
}

}  // namespace autotrain
