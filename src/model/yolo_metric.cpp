#include "model/yolo_metric.h"

#include <algorithm>
#include <optional>
#include <set>

#include "model/boxes.h"
#include "model/coco_evaluation.h"
#include "model/function_metric.h"

namespace autotrain {
namespace {

enum class TruthColumn : int64_t {
  kClass,
  kCentreX,
  kCentreY,
  kWidth,
  kHeight,
  kCrowd,
  kArea,
  kScale,
  kLeft,  // of the image, as are the next three
  kTop,
  kRight,
  kBottom
};

// Targets with all columns, lengths in pixels: [n, boxes, kLongBoxColumns] float64.
torch::Tensor long_truth(const torch::Tensor& target, const torch::Tensor& size) {
  const torch::Tensor wide = target.to(torch::kFloat64);
  const torch::Tensor pixels = at::cat({size, size}).to(torch::kFloat64);
  const torch::Tensor centred = wide.narrow(2, 1, 4) * pixels;
  const torch::Tensor number = wide.narrow(2, 0, 1);
  if (target.size(2) >= kLongBoxColumns)
    return at::cat({number, centred, wide.narrow(2, 5, 3), wide.narrow(2, 8, 4) * pixels}, 2);
  const torch::Tensor area = centred.narrow(2, 2, 1) * centred.narrow(2, 3, 1);
  const torch::Tensor none = at::zeros_like(area);
  const torch::Tensor edges = at::cat({at::zeros_like(size), size}).to(torch::kFloat64);
  return at::cat({number, centred, none, area, at::ones_like(area), edges.expand_as(centred)}, 2);
}

torch::Tensor rows_of_detections(const std::vector<Detection>& boxes, int64_t most) {
  torch::Tensor rows = at::full({most, kFoundColumns}, -1.0f);
  auto* out = rows.mutable_data_ptr<float>();
  for (const Detection& box : boxes) {
    for (const float value :
         {box.left, box.top, box.right, box.bottom, box.score, static_cast<float>(box.category)})
      *out++ = value;
  }
  return rows;
}

// On the CPU only those that are kept are remembered; on a GPU nobody waits, and all candidates are.
torch::Tensor remembered(const torch::Tensor& found) {
  if (!found.is_cpu()) return found;
  const SuppressionOptions options;
  std::vector<torch::Tensor> kept;
  for (int64_t i = 0; i < found.size(0); ++i)
    kept.push_back(rows_of_detections(suppressed_boxes(found[i], options), options.most));
  return at::stack(kept);
}

// Rows: found boxes of each image; true boxes of all images below each other; how many of those an image has,
// and how many classes there are.
MetricState measure_found(const torch::Tensor& prediction, const torch::Tensor& target) {
  const YoloOutput output = YoloOutput::of(prediction, "loss.name");
  check_classes_of(target, output.logits.size(2), "yolo");
  const torch::Tensor truth = long_truth(target, output.size);
  const torch::Tensor count = at::empty({target.size(0), 2}, torch::kInt64);
  count.select(1, 0).fill_(target.size(1));
  count.select(1, 1).fill_(output.logits.size(2));
  return {.rows = {remembered(best_boxes(prediction, kCandidateBoxes)), truth.flatten(0, 1), count}};
}

// What one row of truth says.
class TruthRow {
 public:
  explicit TruthRow(const double* row) : row_(row) {}

  double operator[](TruthColumn column) const { return row_[static_cast<size_t>(column)]; }
  bool there() const { return (*this)[TruthColumn::kClass] >= 0; }
  CocoTruth truth() const {
    using T = TruthColumn;
    const TruthRow& at = *this;
    return {.box = {at[T::kCentreX] - at[T::kWidth] / 2, at[T::kCentreY] - at[T::kHeight] / 2, at[T::kWidth],
                    at[T::kHeight]},
            .category = static_cast<int64_t>(at[T::kClass]),
            .area = at[T::kArea],
            .crowd = at[T::kCrowd] > 0};
  }

 private:
  const double* row_;
};

// An image in its sample, whose box it is in pixels.
struct Frame {
  double left = 0, top = 0, right = 0, bottom = 0;
  double scale = 1;  // pixels of the image that one of the sample is

  static Frame of(const TruthRow& row) {
    using T = TruthColumn;
    return {row[T::kLeft], row[T::kTop], row[T::kRight], row[T::kBottom], row[T::kScale]};
  }

  // Returns nothing where the box lies in the border beside the image.
  std::optional<CocoFound> found(const Detection& box) const {
    const double x = std::max<double>(box.left, left), y = std::max<double>(box.top, top);
    const double width = std::min<double>(box.right, right) - x;
    const double height = std::min<double>(box.bottom, bottom) - y;
    if (width <= 0 || height <= 0) return std::nullopt;
    return CocoFound{.box = {x, y, width, height},
                     .category = box.category,
                     .area = width * height * scale,
                     .score = box.score};
  }
};

struct Gathered {
  std::vector<CocoImage> images;
  int64_t classes = 0;
};

Gathered gathered(const MetricState& whole) {
  const torch::Tensor found = whole.rows.at(0), truth = whole.rows.at(1).contiguous(),
                      counts = whole.rows.at(2).contiguous();
  Gathered all;
  const auto* row = truth.const_data_ptr<double>();
  const auto* count = counts.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < counts.size(0); ++i, count += 2) {
    CocoImage& image = all.images.emplace_back();
    all.classes = std::max(all.classes, count[1]);
    Frame frame;  // all rows of an image say the same
    for (int64_t j = 0; j < count[0]; ++j, row += kLongBoxColumns) {
      const TruthRow box(row);
      if (j == 0) frame = Frame::of(box);
      if (box.there()) image.truth.push_back(box.truth());
    }
    for (const Detection& box : suppressed_boxes(found[i])) {
      if (const std::optional<CocoFound> there = frame.found(box)) image.found.push_back(*there);
    }
  }
  return all;
}

std::vector<Figure> found_figures(const MetricState& whole) {
  const Gathered all = gathered(whole);
  const CocoFigures f = evaluate_coco(all.images, all.classes).all;
  return {{"map", f.precision, share_to_raise()},         {"map50", f.precision50, share_to_raise()},
          {"map75", f.precision75, share_to_raise()},     {"map_small", f.by_area[0], share_to_raise()},
          {"map_medium", f.by_area[1], share_to_raise()}, {"map_large", f.by_area[2], share_to_raise()},
          {"recall100", f.recall[2], share_to_raise()}};
}

// How many images hold a box of each class that is no crowd.
std::vector<double> images_by_class(const Gathered& all) {
  std::vector<double> images(static_cast<size_t>(all.classes));
  for (const CocoImage& image : all.images) {
    std::set<int64_t> there;
    for (const CocoTruth& box : image.truth) {
      if (!box.crowd && box.category < all.classes) there.insert(box.category);
    }
    for (const int64_t category : there) ++images.at(static_cast<size_t>(category));
  }
  return images;
}

std::vector<FigureTable> found_tables(const MetricState& whole) {
  const Gathered all = gathered(whole);
  FigureTable classes{"classes", "class", "boxes, images, AP, AP50, AP75, recall100", {}};
  const std::vector<double> images = images_by_class(all);
  FigureTable curves{"precision", "class", "precision at recall 0, 0.1, …, 1 and an overlap of 0.5", {}};
  for (const CocoClass& each : evaluate_coco(all.images, all.classes).classes) {
    const CocoFigures& f = each.figures;
    classes.cells.push_back({static_cast<double>(each.objects), images[classes.cells.size()], f.precision,
                             f.precision50, f.precision75, f.recall[2]});
    std::vector<double>& curve = curves.cells.emplace_back();
    for (size_t i = 0; i < kCocoRecalls; i += 10)
      curve.push_back(each.objects > 0 ? each.curve50[i] : CocoFigures::kNone);
  }
  return {classes, curves,
          FigureTable{"confusion", "true class, last: nothing", "found class, last: not found",
                      confusion_of_boxes(all.images, all.classes, kSureScore)}};
}

}  // namespace

torch::Tensor best_boxes(const torch::Tensor& prediction, int64_t count) {
  const YoloOutput output = YoloOutput::of(prediction.detach(), "loss.name");
  const int64_t classes = output.logits.size(2), all = output.logits.size(1) * classes;
  const auto [scores, places] = output.logits.flatten(1).topk(std::min(count, all), 1);
  const torch::Tensor point = places.floor_divide(classes);
  const torch::Tensor most = at::cat({output.size, output.size});
  const torch::Tensor boxes =
      at::minimum(output.boxes().clamp_min(0), most).gather(1, point.unsqueeze(2).expand({-1, -1, 4}));
  return at::cat(
      {boxes, at::sigmoid(scores).unsqueeze(2), places.remainder(classes).to(torch::kFloat32).unsqueeze(2)},
      2);
}

std::vector<Detection> suppressed_boxes(const torch::Tensor& found, const SuppressionOptions& options) {
  const torch::Tensor rows = found.contiguous();
  const auto* row = rows.const_data_ptr<float>();
  std::vector<Detection> boxes;
  for (int64_t i = 0; i < rows.size(0); ++i, row += kFoundColumns) {
    if (row[4] < 0) break;
    boxes.push_back({row[0], row[1], row[2], row[3], row[4], static_cast<int32_t>(row[5])});
  }
  return suppress(boxes, options);
}

std::shared_ptr<const PredictionMetric> yolo_metric() {
  return std::make_shared<FunctionMetric>(measure_found, found_figures, found_tables);
}

}  // namespace autotrain
