#pragma once

#include <functional>
#include <string>
#include <vector>

#include "data/detection_dataset.h"
#include "model/detections.h"
#include "predict/prediction_rows.h"

namespace autotrain {

/// What a file of found boxes holds.
struct BoxRowOptions {
  PredictionFormat format = PredictionFormat::kCsv;
  double least_score = 0;
  std::vector<std::string> class_names = {};                         ///< empty: numbers only
  std::function<std::string(int64_t sample)> sample_name = nullptr;  ///< null: samples have none
  const DetectionDataset* images = nullptr;  ///< of the samples; null: boxes are in pixels of the sample
};

/// Writes a row for each box that is found, in pixels of the image's file; a sample in which nothing is found
/// has none. As JSON a row has the keys of COCO's results, so that a list of all rows is such a file.
class BoxRows final : public RowWriter {
 public:
  explicit BoxRows(BoxRowOptions options);

  const std::vector<std::string>& columns() const override { return columns_; }
  std::string header() const override;

  /// @param told [n, candidates, kFoundColumns] as best_boxes.
  std::string rows(int64_t first, const torch::Tensor& told) const override;

 private:
  struct Found;
  struct Image;

  Image image_of(int64_t sample) const;
  std::string name_of(int64_t category) const;
  std::string csv_row(int64_t sample, const Found& found) const;
  std::string json_row(int64_t sample, const Found& found) const;

  BoxRowOptions o_;
  std::vector<std::string> columns_;
};

}  // namespace autotrain
