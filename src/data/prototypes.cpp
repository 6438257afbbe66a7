#include "data/prototypes.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/random.h"
#include "base/units.h"

namespace autotrain {
namespace {

constexpr int64_t kLeastBlock = 1 << 14;  // numbers: less is not worth a flag
constexpr uint64_t kDrawsOfANormal = 2;

}  // namespace

Prototypes::Prototypes(uint64_t key, int64_t size, int64_t classes)
    : key_(key),
      size_(size),
      classes_(classes),
      block_(ceil_div(kLeastBlock, size)),
      values_(static_cast<size_t>(size * classes)),
      drawn_(std::make_unique<std::once_flag[]>(static_cast<size_t>(ceil_div(classes, block_)))) {}

std::shared_ptr<const Prototypes> Prototypes::of_process(uint64_t key, int64_t size, int64_t classes) {
  static std::mutex mutex;
  static std::map<std::tuple<uint64_t, int64_t, int64_t>, std::weak_ptr<const Prototypes>> known;
  const std::lock_guard lock(mutex);
  std::weak_ptr<const Prototypes>& place = known[{key, size, classes}];
  std::shared_ptr<const Prototypes> points = place.lock();
  if (!points) place = points = std::make_shared<const Prototypes>(key, size, classes);
  return points;
}

const float* Prototypes::of(int64_t label) const {
  const int64_t block = label / block_;
  std::call_once(drawn_[static_cast<size_t>(block)], [&] { draw(block); });
  return values_.data() + label * size_;
}

void Prototypes::draw(int64_t block) const {
  const auto begin = static_cast<size_t>(block * block_ * size_);
  const auto end = static_cast<size_t>(std::min(classes_, (block + 1) * block_) * size_);
  Random random(key_);
  random.skip(kDrawsOfANormal * begin);
  for (size_t i = begin; i < end; ++i) values_[i] = static_cast<float>(random.normal());
}

}  // namespace autotrain
