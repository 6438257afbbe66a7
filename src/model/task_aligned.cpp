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

// [c, m, points] bool: the candidates with the largest metric of each box.
torch::Tensor best_points(const torch::Tensor& metric, const torch::Tensor& candidate, int64_t count) {
  const torch::Tensor ranked = metric.masked_fill(candidate.logical_not(), -1);
  const torch::Tensor chosen =
      std::get<1>(ranked.topk(std::min(count, metric.size(2)), 2, /*largest=*/true, /*sorted=*/false));
  return at::zeros_like(candidate).scatter_(2, chosen, true).logical_and_(candidate);
}

// One score for each point, of its box; 1 is the largest of a box's points times that box's best overlap.
Assignment assign_images(const TaskAlignedOptions& o, const YoloOutput& output, const torch::Tensor& logits,
                         const torch::Tensor& boxes, const torch::Tensor& targets) {
  const TrueBoxes truth(targets, output.size);
  const int64_t points = boxes.size(1);
  const torch::Tensor overlap = box_iou(truth.edges.unsqueeze(2), boxes.unsqueeze(1));
  const torch::Tensor of_class =
      at::sigmoid(logits).transpose(1, 2).gather(1, truth.category.unsqueeze(2).expand({-1, -1, points}));
  const torch::Tensor metric = of_class.pow(o.alpha) * overlap.pow(o.beta);
  torch::Tensor given = best_points(metric, candidates(truth, output), o.points_of_a_box);
  // A point that several boxes want goes to the one that it overlaps most.
  const torch::Tensor owner =
      overlap.masked_fill(given.logical_not(), -1).argmax(1, /*keepdim=*/true);  // [c, 1, points]
  given = given.logical_and(at::zeros_like(given).scatter_(1, owner, true));
  const torch::Tensor own_metric = metric * given;
  const torch::Tensor best_overlap = (overlap * given).amax(2, /*keepdim=*/true);
  const torch::Tensor aligned =
      own_metric / own_metric.amax(2, /*keepdim=*/true).clamp_min(kLeastMetric) * best_overlap;
  const torch::Tensor weight = aligned.sum(1);  // of one box at most
  const torch::Tensor box = owner.squeeze(1);   // [c, points]
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
  const torch::Tensor logits = output.logits.detach(), said = boxes.detach();
  std::vector<torch::Tensor> scores, wanted, weights;
  for (int64_t first = 0; first < n; first += at_once) {
    const int64_t count = std::min(at_once, n - first);
    Assignment some = assign_images(o, output, logits.narrow(0, first, count), said.narrow(0, first, count),
                                    targets.narrow(0, first, count));
    scores.push_back(some.scores);
    wanted.push_back(some.boxes);
    weights.push_back(some.weight);
  }
  return {.scores = at::cat(scores), .boxes = at::cat(wanted), .weight = at::cat(weights)};
}

}  // namespace autotrain
