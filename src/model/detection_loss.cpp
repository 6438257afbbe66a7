#include "autotrain/error.h"
#include "base/text.h"
#include "model/boxes.h"
#include "model/function_metric.h"
#include "model/losses.h"

namespace autotrain {
namespace {

using torch::indexing::Ellipsis;
using torch::indexing::Slice;

constexpr double kTiny = 1e-9;       // keeps divisions by areas finite
constexpr int64_t kCellNumbers = 5;  // of a cell before its classes: objectness, then the box

struct DetectionOptions {
  double box_weight = 5;
  double empty_weight = 0.5;
};

// Edges of boxes, each [n, boxes], as parts of the image.
struct Edges {
  torch::Tensor left, top, right, bottom;

  static Edges around(const torch::Tensor& x, const torch::Tensor& y, const torch::Tensor& width,
                      const torch::Tensor& height) {
    return {x - width / 2, y - height / 2, x + width / 2, y + height / 2};
  }
  torch::Tensor area() const { return (right - left).clamp_min(0) * (bottom - top).clamp_min(0); }
};

struct Overlap {
  torch::Tensor iou;  // intersection ÷ union
  torch::Tensor
      giou;  // that, less the share of the enclosing box that neither covers (Rezatofighi et al. 2019)
};

Overlap overlap(const Edges& a, const Edges& b) {
  const torch::Tensor both = Edges{at::maximum(a.left, b.left), at::maximum(a.top, b.top),
                                   at::minimum(a.right, b.right), at::minimum(a.bottom, b.bottom)}
                                 .area();
  const torch::Tensor either = a.area() + b.area() - both;
  const torch::Tensor around = Edges{at::minimum(a.left, b.left), at::minimum(a.top, b.top),
                                     at::maximum(a.right, b.right), at::maximum(a.bottom, b.bottom)}
                                   .area();
  const torch::Tensor iou = both / (either + kTiny);
  return {iou, iou - (around - either) / (around + kTiny)};
}

// The predictions of the cells that hold the centres of true boxes. Tensors are [n, boxes, …].
struct Matched {
  torch::Tensor there;       // 1 for a box, 0 for a row that fills up
  torch::Tensor category;    // int64; 0 where there is no box
  torch::Tensor objectness;  // [n, cells]: logits of all cells
  torch::Tensor occupied;    // [n, cells]: 1 where a box has its centre
  torch::Tensor own;         // logit of the box's cell
  torch::Tensor logits;      // of its classes
  Overlap overlap;           // of the cell's box and the true one
};

void check_shapes(const torch::Tensor& prediction, const torch::Tensor& target) {
  if (prediction.dim() == 4 && prediction.size(3) > kCellNumbers && target.dim() == 3 && target.size(2) >= 5)
    return;
  throw Error(ExitCode::kBadRecipe, "loss.name",
              cat("detection takes a grid of cells and boxes; predictions are ", prediction.sizes(),
                  " and targets ", target.sizes()),
              "it goes with model detector and data set yolo or coco");
}

Matched match(const torch::Tensor& prediction, const torch::Tensor& target) {
  check_shapes(prediction, target);
  check_classes_of(target, prediction.size(3) - kCellNumbers, "detection");
  const int64_t n = prediction.size(0), rows = prediction.size(1), columns = prediction.size(2);
  const torch::Tensor cells = prediction.to(torch::kFloat32).reshape({n, rows * columns, -1});
  const auto number = [&](int64_t i) { return target.select(2, i); };
  const torch::Tensor there = is_object(target).to(torch::kFloat32);
  const torch::Tensor column = (number(1) * columns).floor().clamp(0, columns - 1);
  const torch::Tensor row = (number(2) * rows).floor().clamp(0, rows - 1);
  const torch::Tensor cell = (row * columns + column).to(torch::kInt64);
  const torch::Tensor own = cells.gather(1, cell.unsqueeze(2).expand({-1, -1, cells.size(2)}));
  const auto part = [&](int64_t i) { return at::sigmoid(own.select(2, i)); };
  const Edges predicted =
      Edges::around((column + part(1)) / columns, (row + part(2)) / rows, part(3), part(4));
  const torch::Tensor objectness = cells.select(2, 0);
  return {.there = there,
          .category = number(0).clamp_min(0).to(torch::kInt64),
          .objectness = objectness,
          .occupied = at::zeros_like(objectness).scatter_add(1, cell, there).clamp_max(1),
          .own = own.select(2, 0),
          .logits = own.index({Ellipsis, Slice(kCellNumbers)}),
          .overlap = overlap(predicted, Edges::around(number(1), number(2), number(3), number(4)))};
}

LossTerms detection_terms(const DetectionOptions& o, const torch::Tensor& prediction,
                          const torch::Tensor& target) {
  const Matched m = match(prediction, target);
  const torch::Tensor weight = o.empty_weight + (1 - o.empty_weight) * m.occupied;
  const torch::Tensor cells =
      at::binary_cross_entropy_with_logits(m.objectness, m.occupied, weight, {}, at::Reduction::Sum);
  const torch::Tensor of_class = -at::log_softmax(m.logits, 2).gather(2, m.category.unsqueeze(2)).squeeze(2);
  const torch::Tensor boxes = (m.there * (o.box_weight * (1 - m.overlap.giou) + of_class)).sum();
  const auto samples = static_cast<double>(prediction.size(0));
  return {cells + boxes, at::full({}, samples, cells.options().dtype(torch::kFloat64).requires_grad(false))};
}

// {Σ over true boxes of IoU, right classes, found ones; boxes}.
MetricState measure_boxes(const torch::Tensor& prediction, const torch::Tensor& target) {
  const Matched m = match(prediction, target);
  const auto total = [&](const torch::Tensor& of_box) { return (m.there * of_box).sum(torch::kFloat64); };
  return sums_of({total(m.overlap.iou), total(m.logits.argmax(2) == m.category), total(m.own > 0),
                  m.there.sum(torch::kFloat64)});
}

std::vector<Figure> box_figures(const MetricState& whole) {
  const auto mean = [&](size_t i) {
    return whole.sums.at(i).item<double>() / whole.sums.at(3).item<double>();
  };
  return {{"iou", mean(0), share_to_raise()},
          {"accuracy", mean(1), share_to_raise()},
          {"recall", mean(2), share_to_raise()}};
}

}  // namespace

LossRow detection_row() {
  return {
      {"detection",
       "For model detector: cross-entropy of every cell's objectness, and of the class and 1 − GIoU of the "
       "box "
       "in the cells that hold a true box's centre; summed, per sample. Measures iou, accuracy and recall "
       "(objectness above 1/2) of those cells.",
       {real_key("box_weight", "Weight of the boxes' term.", 5.0).from(0, 1e6),
        real_key("empty_weight", "Weight of objectness where there is no object.", 0.5).above(0, 1e6)}},
      [](const Parameters& p) {
        const DetectionOptions o{.box_weight = p.real("box_weight"), .empty_weight = p.real("empty_weight")};
        return Loss{[o](const torch::Tensor& prediction, const torch::Tensor& target) {
                      return detection_terms(o, prediction, target);
                    },
                    {std::make_shared<FunctionMetric>(measure_boxes, box_figures)}};
      }};
}

}  // namespace autotrain
