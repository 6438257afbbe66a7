#include "data/npy_layout.h"

#include "autotrain/error.h"
#include "base/text.h"

namespace autotrain {
namespace {

constexpr int64_t kMostChannels = 4;  // of an image that is looked at
constexpr int64_t kMostBands = 16;    // of one that is measured

enum class Layout { kFirst, kLast, kEither };

Layout layout_of(const NpyArray& array) {
  const int64_t second = array.shape()[1], third = array.shape()[2], last = array.shape()[3];
  // A square of which each point has some bands, or small maps of many filters.
  if (last > kMostChannels && last <= kMostBands && second == third && last < third) return Layout::kEither;
  const bool may_be_last = last <= kMostChannels;
  // Images of one column, and maps of features as small as filters, have their channels first.
  if (!may_be_last || third <= kMostChannels) {
    const bool tiny = may_be_last && second == last && last != 1;  // [N, 3, 3, 3]
    return tiny ? Layout::kEither : Layout::kFirst;
  }
  if (second <= kMostChannels) return second == 1 && last == 1 ? Layout::kFirst : Layout::kEither;
  // A row of measurements for each channel may have a last dimension of one, too; a square image has not.
  if (last == 1 && second != third && array.type() != NpyType::kUint8) return Layout::kEither;
  return Layout::kLast;
}

}  // namespace

bool channels_are_last(const NpyArray& array, const std::string& channels) {
  if (array.shape().size() != 4 || channels == kLayoutFirst) return false;
  if (channels == kLayoutLast) return true;
  const Layout layout = layout_of(array);
  if (layout != Layout::kEither) return layout == Layout::kLast;
  const std::vector<int64_t>& shape = array.shape();
  throw Error(ExitCode::kBadData, array.path().string(),
              cat("may hold images with ", shape[1], " channels first or with ", shape[3],
                  " channels last: its shape ", array.shape_in_words(), " can be read both ways"),
              "set channels: first or channels: last beside the file");
}

}  // namespace autotrain
