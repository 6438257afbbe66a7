#include "predict/box_rows.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "base/json.h"
#include "base/text.h"
#include "data/placement.h"
#include "model/yolo_metric.h"
#include "report/csv_file.h"

namespace autotrain {

// A box in pixels of its image's file.
struct BoxRows::Found {
  double left = 0, top = 0, width = 0, height = 0;
  double score = 0;
  int64_t category = 0;
  double to_stated_x = 1, to_stated_y = 1;  // where the image was resized since it was annotated
};

// What is known of a sample's file.
struct BoxRows::Image {
  // Where an image lies in its sample, turned round: from pixels of the sample to those of the file.
  struct Frame {
    double offset = 0, from = 0, scale = 1;
    double most =
        std::numeric_limits<double>::infinity();  // of samples that are no files: the sample is the image

    double of(float at) const {
      return std::clamp((static_cast<double>(at) - offset) * scale + from, 0.0, most);
    }
  };

  Frame columns = {}, rows = {};
  double to_stated_x = 1, to_stated_y = 1;

  Found found(const Detection& box) const {
    const double left = columns.of(box.left), top = rows.of(box.top);
    return {.left = left,
            .top = top,
            .width = columns.of(box.right) - left,
            .height = rows.of(box.bottom) - top,
            .score = box.score,
            .category = box.category,
            .to_stated_x = to_stated_x,
            .to_stated_y = to_stated_y};
  }
};

BoxRows::BoxRows(BoxRowOptions options) : o_(std::move(options)) {
  columns_ = {"sample"};
  if (o_.sample_name) columns_.emplace_back("file");
  columns_.emplace_back("class");
  if (!o_.class_names.empty()) columns_.emplace_back("name");
  for (const char* const name : {"score", "x", "y", "width", "height"}) columns_.emplace_back(name);
}

std::string BoxRows::header() const {
  return o_.format == PredictionFormat::kCsv ? csv_line(columns_) : "";
}

// Reads the file's header.
BoxRows::Image BoxRows::image_of(int64_t sample) const {
  if (o_.images == nullptr) return {};
  const ImageSize file = o_.images->file_size(sample), stated = o_.images->stated_size(sample, file);
  const auto& [region, box] = letterboxed(file, o_.images->sample_size());
  const auto frame = [](int64_t offset, double from, double part, int64_t pixels, int64_t most) {
    return Image::Frame{static_cast<double>(offset), from, part / static_cast<double>(pixels),
                        static_cast<double>(most)};
  };
  return {.columns = frame(box.left, region.left, region.width, box.width, file.width),
          .rows = frame(box.top, region.top, region.height, box.height, file.height),
          .to_stated_x = static_cast<double>(stated.width) / static_cast<double>(file.width),
          .to_stated_y = static_cast<double>(stated.height) / static_cast<double>(file.height)};
}

// The number of a class that the data do not name: a model may predict more than they have.
std::string BoxRows::name_of(int64_t category) const {
  const auto number = static_cast<size_t>(category);
  return number < o_.class_names.size() ? o_.class_names[number] : std::to_string(category);
}

std::string BoxRows::csv_row(int64_t sample, const Found& found) const {
  std::vector<std::string> cells = {std::to_string(sample)};
  if (o_.sample_name) cells.push_back(o_.sample_name(sample));
  cells.push_back(std::to_string(found.category));
  if (!o_.class_names.empty()) cells.push_back(name_of(found.category));
  for (const double value : {found.score, found.left, found.top, found.width, found.height})
    cells.push_back(brief(value, 7));
  return csv_line(cells);
}

std::string BoxRows::json_row(int64_t sample, const Found& found) const {
  nlohmann::ordered_json row = {{"sample", sample}};
  if (o_.sample_name) row["file"] = o_.sample_name(sample);
  row["image_id"] = o_.images == nullptr ? sample : o_.images->image_id(sample);
  row["category_id"] = o_.images == nullptr ? found.category : o_.images->category_id(found.category);
  if (!o_.class_names.empty()) row["name"] = name_of(found.category);
  // In the pixels that its annotations are in.
  const double x = found.to_stated_x, y = found.to_stated_y;
  row["bbox"] = {found.left * x, found.top * y, found.width * x, found.height * y};
  row["score"] = found.score;
  return words_of_json(row) + "\n";
}

std::string BoxRows::rows(int64_t first, const torch::Tensor& told) const {
  std::string text;
  for (int64_t i = 0; i < told.size(0); ++i) {
    std::optional<Image> image;  // read where a box is written
    for (const Detection& box : suppressed_boxes(told[i])) {
      if (static_cast<double>(box.score) < o_.least_score) break;  // they come in falling order
      if (!image) image = image_of(first + i);
      const Found found = image->found(box);
      if (found.width <= 0 || found.height <= 0) continue;  // it lies in the border beside the image
      text += o_.format == PredictionFormat::kCsv ? csv_row(first + i, found) : json_row(first + i, found);
    }
  }
  return text;
}

}  // namespace autotrain
