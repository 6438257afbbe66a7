#include "autotrain/error.h"
#include "base/text.h"
#include "model/losses.h"
#include "model/task_aligned.h"
#include "model/yolo_metric.h"

namespace autotrain {
namespace {

constexpr const char* kLossKey = "loss.name";

struct YoloLossOptions {
  TaskAlignedOptions assignment = {};
  double class_weight = 1;  // as Li et al. 2020 weigh the three
  double box_weight = 2;
  double distribution_weight = 1;
};

void check_yolo_targets(const torch::Tensor& prediction, const torch::Tensor& target) {
  if (target.dim() == 3 && target.size(0) == prediction.size(0) && target.size(1) > 0 && target.size(2) >= 5)
    return;
  throw Error(ExitCode::kBadRecipe, kLossKey, cat("yolo takes boxes; targets are ", target.sizes()),
              "it goes with data set yolo or coco");
}

// Distances of a point to the edges of the box that it is given, in strides: [n, points, 4].
torch::Tensor wanted_distances(const YoloOutput& output, const torch::Tensor& boxes) {
  return at::cat({output.places - boxes.narrow(2, 0, 2), boxes.narrow(2, 2, 2) - output.places}, 2) /
         output.strides;
}

LossTerms yolo_terms(const YoloLossOptions& o, const torch::Tensor& prediction, const torch::Tensor& target) {
  const YoloOutput output = YoloOutput::of(prediction, kLossKey);
  check_yolo_targets(prediction, target);
  check_classes_of(target, output.logits.size(2), "yolo");
  const torch::Tensor boxes = output.boxes();
  const Assignment given = assign_points(o.assignment, output, boxes, target);
  const torch::Tensor classes =
      at::binary_cross_entropy_with_logits(output.logits, given.scores, {}, {}, at::Reduction::Sum);
  const torch::Tensor overlap = (given.weight * (1 - complete_iou(boxes, given.boxes))).sum();
  const torch::Tensor distribution =
      (given.weight * distribution_focal(output.bins, wanted_distances(output, given.boxes))).sum() / 4;
  return {.sum = o.class_weight * classes + o.box_weight * overlap + o.distribution_weight * distribution,
          .weight = given.weight.sum(torch::kFloat64),
          .parts = {{"classes", classes.detach()},
                    {"boxes", overlap.detach()},
                    {"distributions", distribution.detach()}}};
}

}  // namespace

LossRow yolo_loss_row() {
  return {
      {"yolo",
       "For model yolo: points are given to boxes by how well they say both class and place; cross-entropy "
       "of "
       "classes to those aligned scores, complete overlap and distribution focal loss of edges weighted by "
       "them. Summed over an update and divided by its aligned scores.",
       {real_key("class_weight", "Weight of the classes' term.", 1.0).from(0, 1e6),
        real_key("box_weight", "Weight of the term of overlaps.", 2.0).from(0, 1e6),
        real_key("distribution_weight", "Weight of the mean over a box's four edges.", 1.0).from(0, 1e6),
        real_key("alpha", "Exponent of the score where points are given to boxes.", 1.0).from(0, 16),
        real_key("beta", "Exponent of the overlap there.", 6.0).from(0, 16),
        integer_key("points_of_a_box", "Points that a box is given at most.", 13).from(1, 1024)}},
      [](const Parameters& p) {
        const YoloLossOptions o{.assignment = {.alpha = p.real("alpha"),
                                               .beta = p.real("beta"),
                                               .points_of_a_box = p.integer("points_of_a_box")},
                                .class_weight = p.real("class_weight"),
                                .box_weight = p.real("box_weight"),
                                .distribution_weight = p.real("distribution_weight")};
        return Loss{[o](const torch::Tensor& prediction, const torch::Tensor& target) {
                      return yolo_terms(o, prediction, target);
                    },
                    {yolo_metric()}};
      },
      nullptr,
      /*finds_boxes=*/true};
}

}  // namespace autotrain
