#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

namespace autotrain {

/// What is known of a file of tokens.
struct TokenFile {
  const std::filesystem::path& path;
  std::span<const uint8_t> bytes;
  int64_t token_bytes;  ///< 2 or 4
  int64_t vocabulary;
};

/// Looks at the first tokens of a file, whether they were written in this width and order of bytes.
/// @throws Error(kBadData) naming what the file holds instead.
void check_token_file(const TokenFile& file);

/// Whether the bytes of the first tokens look as if they were in the other order: that of two which says
/// more, the high one differs more than the low one.
bool looks_swapped(const TokenFile& file);

}  // namespace autotrain
