#include "data/wide_images.h"

#include <algorithm>
#include <array>
#include <vector>

#include "autotrain/error.h"
#include "base/files.h"
#include "data/file_sequence.h"
#include "data/image_codec.h"

namespace autotrain {
namespace {

constexpr int64_t kImagesLookedAt = 256, kDecoded = 32;

// Whether the first bytes are those of a PNG of 16 bits, or of a TIFF, whose depth may stand anywhere.
bool may_be_wide(const std::string& path) {
  std::array<uint8_t, 26> bytes = {};
  if (InputFile(path).read(bytes.data(), bytes.size()) < bytes.size()) return false;
  return is_png(bytes) ? bytes[24] == 16 : is_tiff(bytes);
}

// Calls `visit` with wide images' paths and contents until it says false.
template <class Visit>
void for_each_wide(int64_t files, const std::function<std::string(int64_t)>& path, Visit visit) {
  const int64_t looked_at = std::min(files, kImagesLookedAt);
  for (int64_t i = 0; i < looked_at; ++i) {
    const std::string name = path(i * files / looked_at);
    try {
      if (!may_be_wide(name)) continue;
      FileSequence sequence({{name}});
      const std::span<const uint8_t> content = sequence.next(name);
      if (read_image_facts(content, name).bits == 16 && !visit(name, content)) return;
    } catch (const Error&) {
      // Whoever asks for this sample is told.
    }
  }
}

}  // namespace

BitsInUse bits_in_use(int64_t files, const std::function<std::string(int64_t)>& path) {
  BitsInUse use;
  for_each_wide(files, path, [&use](const std::string& name, std::span<const uint8_t> content) {
    use.largest = std::max(use.largest, decode_image(content, name).largest);
    return ++use.images < kDecoded;
  });
  if (use.images == 0) return use;
  use.bits = 8;
  while (use.bits < 16 && use.largest >> use.bits != 0) use.bits += 2;
  return use;
}

bool any_wide_image(int64_t files, const std::function<std::string(int64_t)>& path) {
  bool any = false;
  for_each_wide(files, path, [&any](const std::string&, std::span<const uint8_t>) {
    any = true;
    return false;
  });
  return any;
}

}  // namespace autotrain
