#include "model/boxes.h"

#include <numbers>

#include "autotrain/error.h"
#include "base/text.h"

namespace autotrain {
namespace {

constexpr double kLeastArea = 1e-9;  // keeps quotients of lengths and areas finite
constexpr double kLastBin = kYoloBins - 1;

torch::Tensor edge(const torch::Tensor& boxes, int64_t i) {
  return boxes.select(-1, i);
}

torch::Tensor width_of(const torch::Tensor& boxes) {
  return edge(boxes, 2) - edge(boxes, 0);
}

torch::Tensor height_of(const torch::Tensor& boxes) {
  return edge(boxes, 3) - edge(boxes, 1);
}

}  // namespace

torch::Tensor is_object(const torch::Tensor& targets) {
  constexpr int64_t kCrowdColumn = 5;
  const torch::Tensor there = targets.select(2, 0) >= 0;
  if (targets.size(2) <= kCrowdColumn) return there;
  return there.logical_and(targets.select(2, kCrowdColumn) <= 0);
}

void check_classes_of(const torch::Tensor& targets, int64_t classes, const char* loss) {
  if (!targets.is_cpu() || targets.numel() == 0) return;
  const auto largest = static_cast<int64_t>(targets.select(2, 0).max().item<double>());
  if (largest < classes) return;
  throw Error(ExitCode::kBadData, loss,
              cat("targets have the class ", largest, ", and the model predicts ", classes,
                  classes == 1 ? " class" : " classes", ", counted from 0"),
              "take a model that predicts all classes of the data");
}

torch::Tensor yolo_points(const std::vector<std::array<int64_t, 2>>& grids, int64_t height, int64_t width) {
  int64_t count = 0;
  for (const auto& [rows, columns] : grids) count += rows * columns;
  torch::Tensor points = at::empty({count, kPointColumns}, torch::kFloat32);
  auto* out = points.mutable_data_ptr<float>();
  for (size_t level = 0; level < grids.size(); ++level) {
    const auto stride = static_cast<float>(kYoloStrides.at(level));
    for (int64_t row = 0; row < grids[level][0]; ++row) {
      for (int64_t column = 0; column < grids[level][1]; ++column) {
        *out++ = (static_cast<float>(column) + 0.5f) * stride;
        *out++ = (static_cast<float>(row) + 0.5f) * stride;
        *out++ = stride;
        *out++ = static_cast<float>(width);
        *out++ = static_cast<float>(height);
      }
    }
  }
  return points;
}

YoloOutput YoloOutput::of(const torch::Tensor& prediction, const char* key) {
  const int64_t classes =
      prediction.dim() == 3 ? prediction.size(2) - 4 * kYoloBins - kPointColumns : int64_t{0};
  const auto refuse = [&](const std::string& what) {
    throw Error(ExitCode::kBadRecipe, key, what, "it goes with model yolo");
  };
  if (classes < 1)
    refuse(cat("yolo takes points with bins and classes; predictions are ", prediction.sizes()));
  const torch::Tensor wide = prediction.to(torch::kFloat32);
  const torch::Tensor points = wide.detach()[0].narrow(1, 4 * kYoloBins + classes, kPointColumns);
  if (points.is_cpu() && points.select(1, 2).le(0).any().item<bool>())
    refuse(
        "yolo takes points whose last five numbers are x, y, stride, width and height; the strides of "
        "these are not all above 0");
  return {.bins = wide.narrow(2, 0, 4 * kYoloBins).unflatten(2, {4, kYoloBins}),
          .logits = wide.narrow(2, 4 * kYoloBins, classes),
          .places = points.narrow(1, 0, 2),
          .strides = points.narrow(1, 2, 1),
          .size = points[0].narrow(0, 3, 2)};
}

torch::Tensor YoloOutput::boxes() const {
  const torch::Tensor values = at::arange(kYoloBins, bins.options().requires_grad(false));
  // As a sum of products: a matrix product would be rounded to half precision under autocast.
  const torch::Tensor distances = (at::softmax(bins, -1) * values).sum(-1) * strides;
  return at::cat({places - distances.narrow(-1, 0, 2), places + distances.narrow(-1, 2, 2)}, -1);
}

torch::Tensor edges_of(const torch::Tensor& centred) {
  const torch::Tensor centre = centred.narrow(-1, 0, 2), half = centred.narrow(-1, 2, 2) / 2;
  return at::cat({centre - half, centre + half}, -1);
}

torch::Tensor box_iou(const torch::Tensor& a, const torch::Tensor& b) {
  const torch::Tensor width = (at::minimum(edge(a, 2), edge(b, 2)) - at::maximum(edge(a, 0), edge(b, 0)));
  const torch::Tensor height = (at::minimum(edge(a, 3), edge(b, 3)) - at::maximum(edge(a, 1), edge(b, 1)));
  const torch::Tensor both = width.clamp_min(0) * height.clamp_min(0);
  return both / (width_of(a) * height_of(a) + width_of(b) * height_of(b) - both + kLeastArea);
}

torch::Tensor complete_iou(const torch::Tensor& predicted, const torch::Tensor& wanted) {
  const torch::Tensor iou = box_iou(predicted, wanted);
  const torch::Tensor hull_width =
      at::maximum(edge(predicted, 2), edge(wanted, 2)) - at::minimum(edge(predicted, 0), edge(wanted, 0));
  const torch::Tensor hull_height =
      at::maximum(edge(predicted, 3), edge(wanted, 3)) - at::minimum(edge(predicted, 1), edge(wanted, 1));
  const torch::Tensor apart_x =
      (edge(predicted, 0) + edge(predicted, 2) - edge(wanted, 0) - edge(wanted, 2)) / 2;
  const torch::Tensor apart_y =
      (edge(predicted, 1) + edge(predicted, 3) - edge(wanted, 1) - edge(wanted, 3)) / 2;
  const torch::Tensor apart =
      (apart_x.square() + apart_y.square()) / (hull_width.square() + hull_height.square() + kLeastArea);
  const auto angle = [](const torch::Tensor& box) {
    return at::atan(width_of(box) / (height_of(box) + kLeastArea));
  };
  const torch::Tensor unlike =
      (4 / (std::numbers::pi * std::numbers::pi)) * (angle(wanted) - angle(predicted)).square();
  const torch::Tensor weight = (unlike / (1 - iou + unlike + kLeastArea)).detach();
  return iou - apart - weight * unlike;
}

torch::Tensor distribution_focal(const torch::Tensor& bins, const torch::Tensor& distances) {
  const torch::Tensor wanted = distances.clamp(0, kLastBin);
  const torch::Tensor below = wanted.floor().clamp_max(kLastBin - 1);
  const torch::Tensor share_above = wanted - below;
  const torch::Tensor index = below.to(torch::kInt64).unsqueeze(-1);
  const torch::Tensor log_shares = at::log_softmax(bins, -1);
  const torch::Tensor at_below = log_shares.gather(-1, index).squeeze(-1);
  const torch::Tensor at_above = log_shares.gather(-1, index + 1).squeeze(-1);
  return -((1 - share_above) * at_below + share_above * at_above).sum(-1);
}

}  // namespace autotrain
