#include "examine/sample_sheet.h"

#include <algorithm>
#include <numeric>

#include "autotrain/data.h"
#include "autotrain/error.h"
#include "base/text.h"
#include "data/box_drawing.h"
#include "data/detection_dataset.h"
#include "data/names.h"
#include "data/pictures.h"

namespace autotrain {
namespace {

constexpr int64_t kColumns = 8;
constexpr int64_t kGap = 4;  // pixels of white between samples

// [n, 3, H, W] of uint8 as one image [rows · H, columns · W, 3], white where there is none.
torch::Tensor on_one_sheet(const torch::Tensor& images, int64_t columns) {
  const int64_t n = images.size(0), high = images.size(2) + kGap, wide = images.size(3) + kGap;
  const int64_t rows = (n + columns - 1) / columns;
  torch::Tensor sheet = torch::full({rows * high - kGap, columns * wide - kGap, 3}, 255, torch::kUInt8);
  for (int64_t i = 0; i < n; ++i) {
    sheet.narrow(0, i / columns * high, images.size(2))
        .narrow(1, i % columns * wide, images.size(3))
        .copy_(images[i].permute({1, 2, 0}));
  }
  return sheet;
}

std::string target_in_words(const torch::Tensor& target, const std::vector<std::string>& classes) {
  if (!target.defined() || target.numel() != 1) return "";
  if (target.is_floating_point()) return brief(target.item<double>());
  const auto number = target.item<int64_t>();
  const bool named = number >= 0 && number < std::ssize(classes);
  return named ? cat(number, ": ", classes[static_cast<size_t>(number)]) : std::to_string(number);
}

std::vector<int64_t> evenly(int64_t size, int64_t count) {
  std::vector<int64_t> samples;
  for (int64_t i = 0; i < count; ++i) samples.push_back(i * size / count);
  return samples;
}

}  // namespace

std::optional<SampleSheet> draw_samples(const Dataset& data, int64_t count, uint64_t seed) {
  const DatasetInfo info = data.info();
  if (info.kind != DatasetInfo::Kind::kImages || info.input_shape.size() != 3) return std::nullopt;
  const std::vector<int64_t> samples = evenly(data.size(), std::min(count, data.size()));
  const std::vector<int64_t> epochs(samples.size(), 0);
  const Batch batch = data.get(samples, SampleRandom(seed, samples, epochs)).to(torch::kCPU);
  if (batch.inputs.dim() != 4) return std::nullopt;
  Pictures pictures = pictures_of(batch.inputs);
  SampleSheet sheet{.columns = std::min<int64_t>(kColumns, std::ssize(samples)),
                    .least = pictures.least,
                    .greatest = pictures.greatest};
  torch::Tensor& drawn = pictures.pixels;
  const bool with_boxes = dynamic_cast<const DetectionDataset*>(&data) != nullptr;
  if (with_boxes) draw_boxes(drawn, batch.targets);
  sheet.png = png_of(on_one_sheet(drawn, sheet.columns).contiguous());
  const std::vector<std::string> classes = class_names_in(data);
  for (size_t i = 0; i < samples.size(); ++i) {
    const torch::Tensor target =
        batch.targets.defined() ? batch.targets[static_cast<int64_t>(i)] : torch::Tensor();
    sheet.entries.push_back(
        {.sample = samples[i],
         .name = sample_name_in(data, samples[i]),
         .target = with_boxes ? boxes_in_words(target, classes) : target_in_words(target, classes)});
  }
  return sheet;
}

}  // namespace autotrain
