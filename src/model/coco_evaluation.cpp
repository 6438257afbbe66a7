#include "model/coco_evaluation.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

namespace autotrain {
namespace {

constexpr size_t kMostFound = 100;  // of a class in an image
constexpr std::array<size_t, 3> kCuts = {1, 10, kMostFound};
constexpr double kAlmostOne = 1 - 1e-10;
constexpr double kEpsilon = std::numeric_limits<double>::epsilon();

struct AreaRange {
  double least, most;
  bool holds(double area) const { return area >= least && area <= most; }
};
constexpr std::array<AreaRange, kCocoAreas> kRanges = {
    AreaRange{0, 1e10}, {0, 32.0 * 32}, {32.0 * 32, 96.0 * 96}, {96.0 * 96, 1e10}};

// Evenly spaced numbers with the roundings of numpy.linspace, on which a comparison at a threshold may hang.
template <size_t n>
std::array<double, n> spaced(double first, double last) {
  const double step = (last - first) / static_cast<double>(n - 1);
  std::array<double, n> values;
  for (size_t i = 0; i < n; ++i) values[i] = static_cast<double>(i) * step + first;
  values.back() = last;
  return values;
}
const std::array<double, kCocoThresholds> kThresholds = spaced<kCocoThresholds>(0.5, 0.95);
const std::array<double, kCocoRecalls> kRecalls = spaced<kCocoRecalls>(0, 1);

// Intersection ÷ union; ÷ the found box where the true one is a crowd.
double overlap_of(const CocoBox& found, const CocoBox& truth, bool crowd) {
  const double width =
      std::min(found.left + found.width, truth.left + truth.width) - std::max(found.left, truth.left);
  if (width <= 0) return 0;
  const double height =
      std::min(found.top + found.height, truth.top + truth.height) - std::max(found.top, truth.top);
  if (height <= 0) return 0;
  const double both = width * height, own = found.width * found.height;
  return both / (crowd ? own : own + truth.width * truth.height - both);
}

// What became of a found box at one threshold.
enum class Verdict : uint8_t { kWrong, kRight, kIgnored };

// One class in one image.
struct ClassInImage {
  std::vector<CocoFound> found;  // best first, the best 100
  std::vector<CocoTruth> truth;
  std::vector<double> overlaps;  // found × truth

  double overlap(size_t f, size_t t) const { return overlaps[f * truth.size() + t]; }
};

// The verdicts of an image's found boxes in one range of areas: [threshold][found], and how many objects
// count.
struct ImageVerdicts {
  std::array<std::vector<Verdict>, kCocoThresholds> of = {};
  int64_t objects = 0;
};

// Objects that count come first: what could be one of them is never taken for an ignored one.
std::vector<size_t> counted_first(const ClassInImage& image, const std::vector<bool>& ignored) {
  std::vector<size_t> order(image.truth.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return !ignored[a] && ignored[b]; });
  return order;
}

// The best match of a found box among objects that are still free, or truth.size().
size_t match_of(const ClassInImage& image, size_t found, double threshold, const std::vector<size_t>& order,
                const std::vector<bool>& ignored, const std::vector<bool>& taken) {
  double best = std::min(threshold, kAlmostOne);
  size_t match = image.truth.size();
  for (const size_t t : order) {
    if (taken[t] && !image.truth[t].crowd) continue;
    if (match < image.truth.size() && !ignored[match] && ignored[t]) break;
    const double overlap = image.overlap(found, t);
    if (overlap < best) continue;
    best = overlap;
    match = t;
  }
  return match;
}

ImageVerdicts judge(const ClassInImage& image, const AreaRange& range) {
  std::vector<bool> ignored;
  for (const CocoTruth& truth : image.truth) ignored.push_back(truth.crowd || !range.holds(truth.area));
  const std::vector<size_t> order = counted_first(image, ignored);
  ImageVerdicts verdicts{.objects = std::ranges::count(ignored, false)};
  for (size_t i = 0; i < kCocoThresholds; ++i) {
    std::vector<bool> taken(image.truth.size(), false);
    for (size_t f = 0; f < image.found.size(); ++f) {
      const size_t match = match_of(image, f, kThresholds[i], order, ignored, taken);
      const bool matched = match < image.truth.size();
      if (matched) taken[match] = true;
      const bool leaves_out = matched ? static_cast<bool>(ignored[match]) : !range.holds(image.found[f].area);
      verdicts.of[i].push_back(leaves_out ? Verdict::kIgnored : matched ? Verdict::kRight : Verdict::kWrong);
    }
  }
  return verdicts;
}

std::vector<ClassInImage> images_with(const std::vector<CocoImage>& images, int64_t category) {
  std::vector<ClassInImage> with;
  for (const CocoImage& image : images) {
    ClassInImage own;
    const auto is_own = [&](const auto& box) { return box.category == category; };
    std::ranges::copy_if(image.truth, std::back_inserter(own.truth), is_own);
    std::ranges::copy_if(image.found, std::back_inserter(own.found), is_own);
    if (own.truth.empty() && own.found.empty()) continue;
    std::ranges::stable_sort(own.found, std::ranges::greater(), &CocoFound::score);
    if (own.found.size() > kMostFound) own.found.resize(kMostFound);
    for (const CocoFound& found : own.found) {
      for (const CocoTruth& truth : own.truth)
        own.overlaps.push_back(overlap_of(found.box, truth.box, truth.crowd));
    }
    with.push_back(std::move(own));
  }
  return with;
}

// Precision by recall of one threshold.
struct Curve {
  std::array<double, kCocoRecalls> precision = {};
  double recall = 0;  // of all that was found
};

// @param verdicts by falling score over all images.
Curve curve_of(const std::vector<Verdict>& verdicts, int64_t objects) {
  std::vector<double> recalls, precisions;
  double right = 0, wrong = 0;
  for (const Verdict verdict : verdicts) {
    right += verdict == Verdict::kRight ? 1 : 0;
    wrong += verdict == Verdict::kWrong ? 1 : 0;
    recalls.push_back(right / static_cast<double>(objects));
    precisions.push_back(right / (wrong + right + kEpsilon));
  }
  for (size_t i = precisions.size(); i-- > 1;) precisions[i - 1] = std::max(precisions[i - 1], precisions[i]);
  Curve curve{.recall = recalls.empty() ? 0 : recalls.back()};
  for (size_t i = 0; i < kCocoRecalls; ++i) {
    const auto at = std::ranges::lower_bound(recalls, kRecalls[i]);
    if (at != recalls.end()) curve.precision[i] = precisions[static_cast<size_t>(at - recalls.begin())];
  }
  return curve;
}

// Of one class in one range of areas, at each threshold; nothing where there are no objects.
using Curves = std::optional<std::array<Curve, kCocoThresholds>>;

// @param cut how many found boxes of an image count.
Curves curves_of(const std::vector<ClassInImage>& images, const std::vector<ImageVerdicts>& verdicts,
                 size_t cut) {
  struct Place {
    double score;
    size_t image, found;
  };
  std::vector<Place> places;
  int64_t objects = 0;
  for (size_t i = 0; i < images.size(); ++i) {
    objects += verdicts[i].objects;
    for (size_t f = 0; f < std::min(cut, images[i].found.size()); ++f)
      places.push_back({images[i].found[f].score, i, f});
  }
  if (objects == 0) return std::nullopt;
  std::ranges::stable_sort(places, std::ranges::greater(), &Place::score);
  std::array<Curve, kCocoThresholds> curves;
  for (size_t t = 0; t < kCocoThresholds; ++t) {
    std::vector<Verdict> in_order;
    for (const Place& place : places) in_order.push_back(verdicts[place.image].of[t][place.found]);
    curves[t] = curve_of(in_order, objects);
  }
  return curves;
}

double mean_precision(const Curve& curve) {
  return std::accumulate(curve.precision.begin(), curve.precision.end(), 0.0) / kCocoRecalls;
}

double mean_over(const Curves& curves, double (*of)(const Curve&)) {
  if (!curves) return CocoFigures::kNone;
  double sum = 0;
  for (const Curve& curve : *curves) sum += of(curve);
  return sum / static_cast<double>(kCocoThresholds);
}

double recall_of(const Curve& curve) {
  return curve.recall;
}

CocoClass evaluate_class(const std::vector<CocoImage>& all, int64_t category) {
  const std::vector<ClassInImage> images = images_with(all, category);
  CocoClass result;
  for (size_t area = 0; area < kCocoAreas; ++area) {
    std::vector<ImageVerdicts> verdicts;
    for (const ClassInImage& image : images) verdicts.push_back(judge(image, kRanges[area]));
    const Curves curves = curves_of(images, verdicts, kMostFound);
    if (area > 0) {
      result.figures.by_area[area - 1] = mean_over(curves, mean_precision);
      result.figures.recall_by_area[area - 1] = mean_over(curves, recall_of);
      continue;
    }
    for (const ImageVerdicts& image : verdicts) result.objects += image.objects;
    if (!curves) continue;
    result.figures.precision = mean_over(curves, mean_precision);
    result.figures.precision50 = mean_precision((*curves)[0]);
    result.figures.precision75 = mean_precision((*curves)[5]);
    result.curve50 = (*curves)[0].precision;
    for (size_t i = 0; i < kCuts.size(); ++i)
      result.figures.recall[i] = mean_over(curves_of(images, verdicts, kCuts[i]), recall_of);
  }
  return result;
}

// The mean of a figure over the classes that have it.
template <class Read>
double mean_of(const std::vector<CocoClass>& classes, Read read) {
  double sum = 0;
  int64_t count = 0;
  for (const CocoClass& each : classes) {
    const double value = read(each.figures);
    if (std::isnan(value)) continue;
    sum += value;
    ++count;
  }
  return count > 0 ? sum / static_cast<double>(count) : CocoFigures::kNone;
}

// A pair of a true and a found box in an image.
struct Pair {
  double overlap;
  size_t truth, found;
};

std::vector<Pair> best_pairs(const CocoImage& image, double least) {
  std::vector<Pair> pairs;
  for (size_t t = 0; t < image.truth.size(); ++t) {
    for (size_t f = 0; f < image.found.size(); ++f) {
      if (image.truth[t].crowd || image.found[f].score < least) continue;
      const double overlap = overlap_of(image.found[f].box, image.truth[t].box, false);
      if (overlap >= kThresholds[0]) pairs.push_back({overlap, t, f});
    }
  }
  std::ranges::stable_sort(pairs, std::ranges::greater(), &Pair::overlap);
  return pairs;
}

bool lies_in_crowd(const CocoFound& found, const std::vector<CocoTruth>& truth) {
  return std::ranges::any_of(truth, [&](const CocoTruth& each) {
    return each.crowd && each.category == found.category &&
           overlap_of(found.box, each.box, true) >= kThresholds[0];
  });
}

}  // namespace

CocoEvaluation evaluate_coco(const std::vector<CocoImage>& images, int64_t classes) {
  CocoEvaluation result;
  for (int64_t i = 0; i < classes; ++i) result.classes.push_back(evaluate_class(images, i));
  const auto mean = [&](auto read) { return mean_of(result.classes, read); };
  result.all.precision = mean([](const CocoFigures& f) { return f.precision; });
  result.all.precision50 = mean([](const CocoFigures& f) { return f.precision50; });
  result.all.precision75 = mean([](const CocoFigures& f) { return f.precision75; });
  for (size_t i = 0; i < 3; ++i) {
    result.all.by_area[i] = mean([i](const CocoFigures& f) { return f.by_area[i]; });
    result.all.recall[i] = mean([i](const CocoFigures& f) { return f.recall[i]; });
    result.all.recall_by_area[i] = mean([i](const CocoFigures& f) { return f.recall_by_area[i]; });
  }
  return result;
}

std::vector<std::vector<double>> confusion_of_boxes(const std::vector<CocoImage>& images, int64_t classes,
                                                    double least) {
  const auto none = static_cast<size_t>(classes);
  std::vector<std::vector<double>> counts(none + 1, std::vector<double>(none + 1, 0.0));
  for (const CocoImage& image : images) {
    std::vector<bool> has(image.truth.size(), false), used(image.found.size(), false);
    for (const Pair& pair : best_pairs(image, least)) {
      if (has[pair.truth] || used[pair.found]) continue;
      has[pair.truth] = used[pair.found] = true;
      ++counts[static_cast<size_t>(image.truth[pair.truth].category)]
              [static_cast<size_t>(image.found[pair.found].category)];
    }
    for (size_t t = 0; t < has.size(); ++t) {
      if (!has[t] && !image.truth[t].crowd) ++counts[static_cast<size_t>(image.truth[t].category)][none];
    }
    for (size_t f = 0; f < used.size(); ++f) {
      if (!used[f] && image.found[f].score >= least && !lies_in_crowd(image.found[f], image.truth))
        ++counts[none][static_cast<size_t>(image.found[f].category)];
    }
  }
  return counts;
}

}  // namespace autotrain
