#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace autotrain {

/// What a file turns out to be by its first bytes, and how it becomes what was expected.
struct FileKind {
  std::string name;  ///< "a .npy file"; "" where the bytes do not tell
  std::string cure = "";
};

/// Of files that are read as plain tokens or as text.
FileKind kind_of_file(std::span<const uint8_t> bytes);

/// Of text that is none to be read as it stands: JSON, a page, a PDF file, a pointer to the file that was
/// meant.
/// @param text at least the first 64 bytes.
FileKind format_of_text(std::string_view text);

/// Of text: a mark of its encoding; the encodings that are not UTF-8.
FileKind encoding_of_text(std::span<const uint8_t> bytes);

/// Where the first byte stands that is no part of a character in UTF-8, from `from` on; the size where there
/// is none. A character that the end cuts is one.
/// @param bytes from the start of a character at `from` on.
size_t first_invalid_utf8(std::span<const uint8_t> bytes, size_t from = 0);

/// Whether bytes, at least 64 of them, are text: UTF-8 without control characters.
bool is_text(std::span<const uint8_t> bytes);

}  // namespace autotrain
