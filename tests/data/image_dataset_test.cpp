#include "data/image_dataset.h"

#include "support/samples.h"
#include "support/support.h"

namespace autotrain {
namespace {

ImageDataset::Content ramp(int64_t count, int64_t channels, int64_t height, int64_t width) {
  ImageDataset::Content content;
  const int64_t bytes = count * channels * height * width;
  content.images =
      torch::arange(bytes).remainder(251).to(torch::kUInt8).reshape({count, channels, height, width});
  content.labels = torch::arange(count);
  content.classes = count;
  return content;
}

TEST(ImageDataset, NormalisesAsTorchvisionWould) {
  auto content = ramp(4, 3, 5, 6);
  content.mean = {0.1, 0.2, 0.3};
  content.deviation = {0.5, 0.25, 2};
  const torch::Tensor images = content.images;
  const ImageDataset data(content, {});
  const Batch batch = test::samples(data, {2, 0}, {0, 0});
  const torch::Tensor pixels = images.index_select(0, torch::tensor({2, 0})).to(torch::kFloat64) / 255;
  const torch::Tensor mean = torch::tensor({0.1, 0.2, 0.3}, torch::kFloat64).view({1, 3, 1, 1});
  const torch::Tensor deviation = torch::tensor({0.5, 0.25, 2.0}, torch::kFloat64).view({1, 3, 1, 1});
  EXPECT_TRUE(torch::allclose(batch.inputs.to(torch::kFloat64), (pixels - mean) / deviation, 1e-6, 1e-6));
  EXPECT_EQ(batch.targets[0].item<int64_t>(), 2);
}

// Every augmented image is the padded original, cropped somewhere and mirrored or not.
TEST(ImageDataset, AugmentedImagesAreCropsOfThePaddedOriginal) {
  const auto content = ramp(1, 1, 6, 5);
  const ImageDataset plain(content, {}), augmented(content, {.flip = true, .crop_padding = 2});
  const torch::Tensor padded =
      torch::constant_pad_nd(test::samples(plain, {0}, {0}).inputs[0], {2, 2, 2, 2}, 0);
  std::set<std::tuple<int64_t, int64_t, bool>> seen;
  for (int64_t epoch = 0; epoch < 400; ++epoch) {
    const torch::Tensor image = test::samples(augmented, {0}, {epoch}).inputs[0];
    int matches = 0;
    for (int64_t y = 0; y <= 4; ++y) {
      for (int64_t x = 0; x <= 4; ++x) {
        const torch::Tensor crop = padded.slice(1, y, y + 6).slice(2, x, x + 5);
        for (const bool flip : {false, true}) {
          if (!image.equal(flip ? crop.flip(2) : crop)) continue;
          ++matches;
          seen.insert({y, x, flip});
        }
      }
    }
    ASSERT_EQ(matches, 1);
  }
  EXPECT_EQ(seen.size(), 50u) << "25 places, mirrored or not, all turn up in 400 draws";
}

TEST(ImageDataset, AugmentationDependsOnSampleAndEpochOnly) {
  const ImageDataset data(ramp(8, 1, 6, 6), {.flip = true, .crop_padding = 2});
  const Batch together = test::samples(data, {3, 5, 3}, {7, 7, 8});
  EXPECT_TRUE(together.inputs[0].equal(test::samples(data, {3}, {7}).inputs[0]));
  EXPECT_TRUE(together.inputs[1].equal(test::samples(data, {5}, {7}).inputs[0]));
  EXPECT_TRUE(together.inputs[2].equal(test::samples(data, {3}, {8}).inputs[0]));
}

}  // namespace
}  // namespace autotrain
