#include "data/shared_images.h"

#include <unordered_set>

#include "base/text.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

// Those of the seen images of which the training data have one of the same name. A folder may hold more than
// they read of it: its split, or its file of annotations, says which.
std::vector<SeenImage> with_namesakes(const std::vector<SeenImage>& seen, const NamedImages& own,
                                      const NamedImages& training) {
  std::vector<SeenImage> found;
  std::error_code none;
  for (const SeenImage& image : seen)
    if (image.hash != 0 && fs::exists(training.folder / own.names[image.index], none)) found.push_back(image);
  if (found.empty()) return found;
  std::unordered_set<std::string_view> trained_on;
  for (int64_t i = 0; i < training.names.size(); ++i) trained_on.insert(training.names[i]);
  std::erase_if(found, [&](const SeenImage& image) { return !trained_on.contains(own.names[image.index]); });
  return found;
}

}  // namespace

void doubt_shared_images(const std::vector<SeenImage>& seen, const NamedImages& own,
                         const NamedImages& training, const LookOptions& options, DataLook& look) {
  std::vector<SeenImage> copies = with_namesakes(seen, own, training);
  const ImageList theirs{
      .count = std::ssize(copies), .path = [&](int64_t i) {
        return (training.folder / own.names[copies[static_cast<size_t>(i)].index]).string();
      }};
  const std::vector<uint64_t> hashes =
      hash_files(theirs, {.depth = options.depth, .threads = options.threads});
  const auto is_copy = [&](size_t i) { return copies[i].hash == hashes[i]; };
  int64_t same = 0;
  for (size_t i = 0; i < copies.size(); ++i) same += is_copy(i) ? 1 : 0;
  const bool all = same > 0 && same == std::ssize(seen);
  for (size_t i = 0; i < copies.size(); ++i) {
    if (!is_copy(i)) continue;
    look.doubt(
        all ? cat(word_of(look.role), " data that are the training data")
            : cat(word_of(look.role), " images that are in the training data, too"),
        all ? "name other data, or divide these: split: train and split: validation, where it has splits"
            : "remove them from one of the two",
        (own.folder / own.names[copies[i].index]).string());
    if (all) return;
  }
}

}  // namespace autotrain
