#include "model/detections.h"

#include <algorithm>
#include <numeric>

namespace autotrain {
namespace {

// Boxes of one class, best first, as columns, so that a row of overlaps is computed at once.
struct BoxColumns {
  std::vector<float> left, top, right, bottom, area;
  std::vector<uint8_t> dropped;

  void add(const Detection& box) {
    left.push_back(box.left);
    top.push_back(box.top);
    right.push_back(box.right);
    bottom.push_back(box.bottom);
    area.push_back((box.right - box.left) * (box.bottom - box.top));
    dropped.push_back(0);
  }

  // Drops those behind box i that overlap it by more than a share of what both cover.
  void drop_behind(size_t i, float share) {
    const float l = left[i], t = top[i], r = right[i], b = bottom[i], own = area[i];
    const size_t count = left.size();
    for (size_t j = i + 1; j < count; ++j) {
      const float width = std::max(0.0f, std::min(r, right[j]) - std::max(l, left[j]));
      const float height = std::max(0.0f, std::min(b, bottom[j]) - std::max(t, top[j]));
      const float both = width * height;
      dropped[j] = static_cast<uint8_t>(dropped[j] | (both > share * (own + area[j] - both) ? 1 : 0));
    }
  }
};

// Places of the boxes by class, and within a class by falling score.
std::vector<size_t> by_class_and_score(const std::vector<Detection>& boxes) {
  std::vector<size_t> order(boxes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) {
    if (boxes[a].category != boxes[b].category) return boxes[a].category < boxes[b].category;
    return boxes[a].score > boxes[b].score;
  });
  return order;
}

// Appends the places of those of one class that are kept.
void keep_of_class(const std::vector<Detection>& boxes, const std::vector<size_t>& order, size_t first,
                   size_t end, const SuppressionOptions& o, std::vector<size_t>& kept) {
  BoxColumns columns;
  for (size_t i = first; i < end; ++i) columns.add(boxes[order[i]]);
  int64_t found = 0;
  for (size_t i = 0; i < end - first && found < o.most; ++i) {
    if (columns.dropped[i] != 0) continue;
    kept.push_back(order[first + i]);
    ++found;
    columns.drop_behind(i, o.overlap);
  }
}

}  // namespace

std::vector<Detection> suppress(const std::vector<Detection>& boxes, const SuppressionOptions& o) {
  const std::vector<size_t> order = by_class_and_score(boxes);
  std::vector<size_t> kept;
  for (size_t first = 0, end = 0; first < order.size(); first = end) {
    while (end < order.size() && boxes[order[end]].category == boxes[order[first]].category) ++end;
    keep_of_class(boxes, order, first, end, o, kept);
  }
  std::ranges::sort(kept, [&](size_t a, size_t b) {
    return boxes[a].score != boxes[b].score ? boxes[a].score > boxes[b].score : a < b;
  });
  if (std::ssize(kept) > o.most) kept.resize(static_cast<size_t>(o.most));
  std::vector<Detection> best;
  for (const size_t i : kept) best.push_back(boxes[i]);
  return best;
}

}  // namespace autotrain
