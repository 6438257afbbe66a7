#include "model/task_aligned.h"

#include <algorithm>
#include <limits>

namespace autotrain {
namespace {

constexpr double kLeastMetric = 1e-30;  // a quotient of two of them is finite

// True boxes of some images.
struct TrueBoxes {
  torch::Tensor there;     // [c, m] bool
  torch::Tensor category;  // [c, m] int64; 0 where there is no box
  torch::Tensor edges;     // [c, m, 4] in pixels
  torch::Tensor centred;   // [c, m, 4] centre, width and height in pixels

  TrueBoxes(const torch::Tensor& targets, const torch::Tensor& size) {
    const torch::Tensor number = targets.select(2, 0);
    there = is_object(targets);
    category = number.clamp_min(0).to(torch::kInt64);
    centred = targets.narrow(2, 1, 4).to(torch::kFloat32) * at::cat({size, size});
    edges = edges_of(centred);
  }
};

// [c, m, points] bool: whether the point lies in the box, or in one as large as the point's cell around its
// middle, so that small boxes have points as well.
torch::Tensor candidates(const TrueBoxes& truth, const YoloOutput& output) {
  const auto within = [&](int64_t axis) {
    const torch::Tensor place = output.places.select(1, axis);  // [points]
    const torch::Tensor middle = truth.centred.select(2, axis).unsqueeze(2);
    const torch::Tensor half = truth.centred.select(2, axis + 2).unsqueeze(2) / 2;
    return (place - middle).abs() <= at::maximum(half, output.strides.select(1, 0) / 2);
  };
  return within(0).logical_and_(within(1)).logical_and_(truth.there.unsqueeze(2));
}

// The points that boxes want most, each [c, m, k].
struct Wanted {
  torch::Tensor points;   // int64
  torch::Tensor metric;   // s^alpha · u^beta
  torch::Tensor overlap;  // of the point's box and the true one
  torch::Tensor given;    // bool: a box may have fewer candidates
};

// What is no number stays so in the metric: the loss tells it.
// @param scores [c, classes, points].
Wanted wanted_points(const TaskAlignedOptions& o, const YoloOutput& output, const torch::Tensor& scores,
                     const torch::Tensor& boxes, const torch::Tensor& targets) {
  const TrueBoxes truth(targets, output.size);
  const int64_t points = boxes.size(1);
  const torch::Tensor overlap = box_iou(truth.edges.unsqueeze(2), boxes.unsqueeze(1));
  const torch::Tensor of_class = scores.gather(1, truth.category.unsqueeze(2).expand({-1, -1, points}));
  const torch::Tensor candidate = candidates(truth, output);
  const torch::Tensor metric =
      (of_class.pow(o.alpha) * overlap.pow(o.beta)).masked_fill(candidate.logical_not(), -1);
  const auto [best, places] =
      metric.topk(std::min(o.points_of_a_box, points), 2, /*largest=*/true, /*sorted=*/false);
  return {places, best.clamp_min(0), overlap.gather(2, places), candidate.gather(2, places)};
}

// The same of so many boxes at a time: what is kept of one is some points, not all.
Wanted wanted_in_parts(const TaskAlignedOptions& o, const YoloOutput& output, const torch::Tensor& scores,
                       const torch::Tensor& boxes, const torch::Tensor& targets, int64_t at_once) {
  std::vector<torch::Tensor> points, metrics, overlaps, given;
  for (int64_t first = 0; first < targets.size(1); first += at_once) {
    const int64_t count = std::min(at_once, targets.size(1) - first);
    const Wanted some = wanted_points(o, output, scores, boxes, targets.narrow(1, first, count));
    points.push_back(some.points);
    metrics.push_back(some.metric);
    overlaps.push_back(some.overlap);
    given.push_back(some.given);
  }
  return {at::cat(points, 1), at::cat(metrics, 1), at::cat(overlaps, 1), at::cat(given, 1)};
}

// [c, points] int64: the box that each point goes to, of several the one that it overlaps most, of equal ones
// the first; m where none wants it.
torch::Tensor owners(const Wanted& wanted, int64_t points) {
  const int64_t images = wanted.points.size(0), boxes = wanted.points.size(1);
  const torch::Tensor place = wanted.points.flatten(1);
  const torch::Tensor overlap = wanted.overlap.masked_fill(wanted.given.logical_not(), -1).flatten(1);
  const torch::Tensor most =
      at::full({images, points}, -1, overlap.options()).scatter_reduce(1, place, overlap, "amax");
  const torch::Tensor wins = wanted.given.flatten(1).logical_and(overlap == most.gather(1, place));
  const torch::Tensor number =
      at::arange(boxes, place.options()).unsqueeze(1).expand_as(wanted.points).flatten(1);
  return at::full({images, points}, boxes, place.options())
      .scatter_reduce(1, place, number.masked_fill(wins.logical_not(), boxes), "amin");
}

// One score for each point, of its box; 1 is the largest of a box's points times that box's best overlap.
Assignment assign_images(const TaskAlignedOptions& o, const YoloOutput& output, const torch::Tensor& logits,
                         const torch::Tensor& boxes, const torch::Tensor& targets, int64_t boxes_at_once) {
  const torch::Tensor scores = at::sigmoid(logits).transpose(1, 2);
  const Wanted wanted = wanted_in_parts(o, output, scores, boxes, targets, boxes_at_once);
  const torch::Tensor owner = owners(wanted, boxes.size(1)), place = wanted.points.flatten(1);
  const torch::Tensor number = at::arange(targets.size(1), place.options()).view({1, -1, 1});
  const torch::Tensor own = wanted.given.logical_and(owner.gather(1, place).view_as(wanted.points) == number);
  const torch::Tensor metric = wanted.metric * own;
  const torch::Tensor best_overlap = (wanted.overlap * own).amax(2, /*keepdim=*/true);
  const torch::Tensor aligned =
      metric / metric.amax(2, /*keepdim=*/true).clamp_min(kLeastMetric) * best_overlap;
  // One box at most gives a point more than 0, so the largest of them is their sum.
  const torch::Tensor weight = at::zeros({boxes.size(0), boxes.size(1)}, aligned.options())
                                   .scatter_reduce(1, place, aligned.flatten(1), "amax");
  const torch::Tensor box = owner.masked_fill(owner == targets.size(1), 0);
  const TrueBoxes truth(targets, output.size);
  const torch::Tensor category = truth.category.gather(1, box).unsqueeze(2);
  return {.scores = at::zeros_like(logits).scatter_(2, category, weight.unsqueeze(2)),
          .boxes = truth.edges.gather(1, box.unsqueeze(2).expand({-1, -1, 4})),
          .weight = weight};
}

}  // namespace

Assignment assign_points(const TaskAlignedOptions& o, const YoloOutput& output, const torch::Tensor& boxes,
                         const torch::Tensor& targets) {
  const at::NoGradGuard no_gradients;
  const int64_t n = boxes.size(0), of_image = std::max<int64_t>(1, targets.size(1) * boxes.size(1));
  const int64_t at_once = std::clamp<int64_t>(o.elements_at_once / of_image, 1, n);
  const int64_t boxes_at_once = std::max<int64_t>(1, o.elements_at_once / (at_once * boxes.size(1)));
  const torch::Tensor logits = output.logits.detach(), said = boxes.detach();
  std::vector<torch::Tensor> scores, wanted, weights;
  for (int64_t first = 0; first < n; first += at_once) {
    const int64_t count = std::min(at_once, n - first);
    Assignment some = assign_images(o, output, logits.narrow(0, first, count), said.narrow(0, first, count),
                                    targets.narrow(0, first, count), boxes_at_once);
    scores.push_back(some.scores);
    wanted.push_back(some.boxes);
    weights.push_back(some.weight);
  }
  return {.scores = at::cat(scores), .boxes = at::cat(wanted), .weight = at::cat(weights)};
}

}  // namespace autotrain
