#include "examine/sample_sheet.h"

#include <png.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "autotrain/data.h"
#include "autotrain/error.h"
#include "base/text.h"
#include "data/detection_dataset.h"
#include "data/names.h"
#include "examine/box_drawing.h"

namespace autotrain {
namespace {

constexpr int64_t kColumns = 8;
constexpr int64_t kLeastSide = 64;  // pixels that a sample has at least, by whole multiples
constexpr int64_t kMostSide = 256;  // larger ones are made smaller
constexpr int64_t kGap = 4;         // pixels of white between samples

// [n, C, H, W] as [n, 3, H, W] of float: colours, one channel as grey, of others the first three.
torch::Tensor as_colours(const torch::Tensor& images) {
  const torch::Tensor floats = images.to(torch::kFloat32);
  if (floats.size(1) == 3) return floats;
  if (floats.size(1) > 3) return floats.narrow(1, 0, 3);
  return floats.narrow(1, 0, 1).expand({-1, 3, -1, -1});
}

// Pixels are repeated, so that small images stay what they are; large ones are averaged.
torch::Tensor at_readable_size(const torch::Tensor& images) {
  const int64_t side = std::max(images.size(2), images.size(3));
  if (side > kMostSide) {
    const double factor = static_cast<double>(kMostSide) / static_cast<double>(side);
    const auto scaled = [&](int64_t size) {
      return std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(size) * factor));
    };
    return at::adaptive_avg_pool2d(images, {scaled(images.size(2)), scaled(images.size(3))});
  }
  const int64_t times = (kLeastSide + side - 1) / side;
  return images.repeat_interleave(times, 2).repeat_interleave(times, 3);
}

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

std::string png_of(const torch::Tensor& pixels) {
  png_image image;
  std::memset(&image, 0, sizeof image);
  image.version = PNG_IMAGE_VERSION;
  image.height = static_cast<png_uint_32>(pixels.size(0));
  image.width = static_cast<png_uint_32>(pixels.size(1));
  image.format = PNG_FORMAT_RGB;
  const void* const from = pixels.const_data_ptr<uint8_t>();
  png_alloc_size_t bytes = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string png(bytes, '\0');
  if (png_image_write_to_memory(&image, png.data(), &bytes, 0, from, 0, nullptr) == 0)
    throw Error(ExitCode::kInternal, "sample sheet", image.message);
  png.resize(bytes);
  return png;
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
  SampleSheet sheet{.columns = std::min<int64_t>(kColumns, std::ssize(samples))};
  const torch::Tensor colours = as_colours(batch.inputs).nan_to_num(0, 0, 0);
  sheet.least = colours.min().item<double>();
  sheet.greatest = colours.max().item<double>();
  const double span = sheet.greatest > sheet.least ? sheet.greatest - sheet.least : 1;
  const torch::Tensor grey = ((colours - sheet.least) * (255 / span)).round().clamp(0, 255);
  torch::Tensor drawn = at_readable_size(grey).round().to(torch::kUInt8);
  const bool with_boxes = dynamic_cast<const DetectionDataset*>(&data) != nullptr;
  if (with_boxes) draw_boxes(drawn, batch.targets);
  sheet.png = png_of(on_one_sheet(drawn, sheet.columns).contiguous());
  const auto* const named = dynamic_cast<const Named*>(&data);
  const std::vector<std::string> classes =
      named == nullptr ? std::vector<std::string>{} : named->class_names();
  for (size_t i = 0; i < samples.size(); ++i) {
    const torch::Tensor target =
        batch.targets.defined() ? batch.targets[static_cast<int64_t>(i)] : torch::Tensor();
    sheet.entries.push_back(
        {.sample = samples[i],
         .name = named != nullptr && named->names_samples() ? named->sample_name(samples[i]) : "",
         .target = with_boxes ? boxes_in_words(target, classes) : target_in_words(target, classes)});
  }
  return sheet;
}

}  // namespace autotrain
