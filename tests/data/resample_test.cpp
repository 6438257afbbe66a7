#include "data/resample.h"

#include <cmath>
#include <cstdlib>

#include "checkpoint/safetensors.h"
#include "support/images.h"
#include "support/support.h"

namespace autotrain {
namespace {

// [C, H, W] of a region of an image.
torch::Tensor resampled(const DecodedImage& image, const Region& region, const ImageSize& size) {
  torch::Tensor out = torch::full({image.channels, size.height, size.width}, -1.0f);
  resample(image, region, {out.mutable_data_ptr<float>(), image.channels, size},
           {0, 0, size.height, size.width});
  return out;
}

Region whole(const DecodedImage& image) {
  return {0, 0, static_cast<double>(image.size.height), static_cast<double>(image.size.width)};
}

TEST(Resample, AtTheSameSizeNothingChanges) {
  for (const int64_t channels : {1, 3}) {
    const DecodedImage image = test::gradient_image(7, 9, channels);
    const torch::Tensor out = resampled(image, whole(image), image.size);
    for (int64_t y = 0; y < 7; ++y) {
      for (int64_t x = 0; x < 9; ++x) {
        for (int64_t c = 0; c < channels; ++c) {
          EXPECT_EQ(out[c][y][x].item<float>(),
                    image.pixels[static_cast<size_t>((y * 9 + x) * channels + c)]);
        }
      }
    }
  }
}

TEST(Resample, OneColourStaysItAtAnySize) {
  const DecodedImage image = test::plain_image(10, 14, {250, 3, 77});
  for (const ImageSize size : {ImageSize{3, 3}, {1, 1}, {25, 40}, {10, 2}}) {
    const torch::Tensor out = resampled(image, {0.3, 1.7, 9.1, 11.2}, size);
    EXPECT_LT((out[0] - 250).abs().max().item<float>(), 1e-3);
    EXPECT_LT((out[2] - 77).abs().max().item<float>(), 1e-3);
  }
}

TEST(Resample, FillsItsBoxAndNothingElse) {
  const DecodedImage image = test::plain_image(4, 4, {9});
  torch::Tensor out = torch::full({1, 6, 8}, -1.0f);
  resample(image, whole(image), {out.mutable_data_ptr<float>(), 1, {6, 8}}, {1, 2, 3, 4});
  EXPECT_EQ((out == 9).sum().item<int64_t>(), 12);
  EXPECT_TRUE((out.slice(1, 1, 4).slice(2, 2, 6) == 9).all().item<bool>());
}

// Driven by tests/interop/pillow_test.py, which makes the files; alone it has nothing to compare.
TEST(Pillow, ResizesAlike) {
  const char* const folder = std::getenv("AUTOTRAIN_PILLOW_RESIZED");
  if (folder == nullptr) GTEST_SKIP() << "run by pillow_test.py";
  std::map<std::string, torch::Tensor> tensors;
  for (const NamedTensor& item : read_safetensors(std::filesystem::path(folder) / "resized.safetensors")) {
    tensors[item.name] = item.tensor;
  }
  for (size_t i = 0; i < tensors.size() / 3; ++i) {
    const auto tensor = [&](const char* name) { return tensors.at(std::to_string(i) + name); };
    const torch::Tensor before = tensor(".before").contiguous(), after = tensor(".after");
    const auto* const pixels = before.const_data_ptr<uint8_t>();
    const DecodedImage image{
        .pixels = {pixels, pixels + before.numel()}, .size = {before.size(0), before.size(1)}, .channels = 3};
    const auto* const box = tensor(".box").const_data_ptr<double>();
    const torch::Tensor ours =
        resampled(image, {box[1], box[0], box[3] - box[1], box[2] - box[0]}, {after.size(0), after.size(1)});
    const torch::Tensor levels = ours.round().clamp(0, 255).permute({1, 2, 0});
    EXPECT_LE((levels - after.to(torch::kFloat32)).abs().max().item<float>(), 1) << "case " << i;
  }
}

}  // namespace
}  // namespace autotrain
