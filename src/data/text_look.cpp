#include "data/text_look.h"

#include <algorithm>

#include "base/text.h"
#include "data/file_kinds.h"

namespace autotrain {

void look_at_text_file(const MappedFile& file, LookDepth depth, DataLook& look) {
  constexpr size_t kAtStart = 1 << 12;
  const std::span<const uint8_t> bytes = file.bytes();
  const std::string path = file.path().string();
  const FileKind kind = kind_of_file(bytes), encoding = encoding_of_text(bytes);
  if (!kind.name.empty()) {
    look.doubt("files that are no text", kind.cure, cat(path, ": is ", kind.name));
  } else if (!encoding.name.empty()) {
    look.doubt("files that begin with a mark of their encoding", encoding.cure,
               cat(path, ": ", encoding.name));
  } else if (const auto start = bytes.first(std::min(bytes.size(), kAtStart));
             std::ranges::find(start, uint8_t{0}) != start.end()) {
    look.doubt("files that are no text", "bytes of 0 are learned, too; name other files",
               cat(path, ": offset ", std::ranges::find(start, uint8_t{0}) - start.begin(), ": a byte of 0"));
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), std::min(bytes.size(), kAtStart));
  if (const FileKind format = format_of_text(text); !format.name.empty())
    look.doubt("files that are no plain text, and are learned as they stand", format.cure,
               cat(path, ": is ", format.name));
  if (depth != LookDepth::kWhole || !kind.name.empty()) return;
  for (size_t at = first_invalid_utf8(bytes); at < bytes.size(); at = first_invalid_utf8(bytes, at + 1)) {
    look.doubt("bytes that are no part of a character in UTF-8",
               "they are learned as bytes; convert other encodings: iconv -t UTF-8",
               cat(path, ": offset ", at, ": ", static_cast<int>(bytes[at])));
  }
}

}  // namespace autotrain
