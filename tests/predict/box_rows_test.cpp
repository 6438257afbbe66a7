#include "predict/box_rows.h"

#include <nlohmann/json.hpp>

#include "data/datasets.h"
#include "support/images.h"
#include "support/support.h"

namespace autotrain {
namespace {

using Json = nlohmann::json;

// Found boxes of one image: left, top, right, bottom, score, class; a score below 0 fills up.
torch::Tensor told(const std::vector<std::vector<float>>& boxes) {
  torch::Tensor rows = at::full({1, 4, 6}, -1.0f);
  for (size_t i = 0; i < boxes.size(); ++i) rows[0][static_cast<int64_t>(i)] = torch::tensor(boxes[i]);
  return rows;
}

// An image of 40 × 20 in samples of 20 × 20, so halved, with 5 rows of black above and below.
struct WideImage {
  test::TemporaryFolder folder;
  std::unique_ptr<Dataset> data;

  WideImage() {
    folder.write("images/a.png", test::png_file(test::plain_image(20, 40, {9, 9, 9})));
    folder.write("a.json", R"({"images": [{"id": 77, "file_name": "a.png", "width": 40, "height": 20}],
      "annotations": [{"image_id": 77, "category_id": 9, "bbox": [8, 4, 12, 6]}],
      "categories": [{"id": 5, "name": "cat"}, {"id": 9, "name": "dog"}]})");
    data = make_dataset({Choice{"coco",
                                {{"images", (folder / "images").string()},
                                 {"annotations", (folder / "a.json").string()},
                                 {"size", std::vector<int64_t>{20, 20}}}}});
  }
  BoxRows rows(PredictionFormat format, double least = 0.25) const {
    return BoxRows({.format = format,
                    .least_score = least,
                    .class_names = {"cat", "dog"},
                    .sample_name = [](int64_t) { return "a.png"; },
                    .images = dynamic_cast<const DetectionDataset*>(data.get())});
  }
};

TEST(BoxRows, BoxesAreInPixelsOfTheFileWithTheIdsOfItsAnnotations) {
  const WideImage image;
  const std::string text = image.rows(PredictionFormat::kJsonl).rows(0, told({{4, 7, 10, 10, 0.75f, 1}}));
  const Json row = Json::parse(text);
  EXPECT_EQ(row["bbox"], (Json{8, 4, 12, 6}));
  EXPECT_EQ(row["image_id"], 77);
  EXPECT_EQ(row["category_id"], 9);
  EXPECT_EQ(row["name"], "dog");
  EXPECT_EQ(row["score"], 0.75);
}

// A model from elsewhere, or training data of another kind, may have more classes than the annotations.
TEST(BoxRows, AClassBeyondThoseOfTheAnnotationsHasItsNumberAndAnIdOfItsOwn) {
  const WideImage image;
  const torch::Tensor found = told({{4, 7, 10, 10, 0.75f, 3}});
  const Json row = Json::parse(image.rows(PredictionFormat::kJsonl).rows(0, found));
  EXPECT_EQ(row["category_id"], 11) << "behind 9, the largest";
  EXPECT_EQ(row["name"], "3");
  EXPECT_EQ(image.rows(PredictionFormat::kCsv).rows(0, found), "0,a.png,3,3,0.75,8,4,12,6\r\n");
}

TEST(BoxRows, ARowOfATableHasWhatItsHeaderSays) {
  const WideImage image;
  const BoxRows rows = image.rows(PredictionFormat::kCsv);
  EXPECT_EQ(rows.header(), "sample,file,class,name,score,x,y,width,height\r\n");
  EXPECT_EQ(rows.rows(0, told({{4, 7, 10, 10, 0.75f, 1}})), "0,a.png,1,dog,0.75,8,4,12,6\r\n");
}

TEST(BoxRows, WeakBoxesThoseInTheBorderAndThoseThatOverlapAreLeftOut) {
  const WideImage image;
  const torch::Tensor found = told(
      {{4, 7, 10, 10, 0.9f, 1}, {4, 7, 10, 10.5, 0.8f, 1}, {2, 0, 9, 4, 0.7f, 0}, {0, 6, 9, 14, 0.2f, 0}});
  const auto count = [&](double least) {
    const std::string text = image.rows(PredictionFormat::kJsonl, least).rows(0, found);
    return std::ranges::count(text, '\n');
  };
  EXPECT_EQ(count(0.25), 1) << "of the second class one is suppressed; the third lies above the image";
  EXPECT_EQ(count(0.1), 2);
}

TEST(BoxRows, OtherImagesBecomeSamplesOfTheSameKind) {
  const WideImage image;
  const test::TemporaryFolder photos;
  photos.write("deep/b.png", test::png_file(test::plain_image(30, 30, {9, 9, 9})));
  photos.write("a.png", test::png_file(test::plain_image(10, 20, {9, 9, 9})));
  const Choice choice{"coco",
                      {{"images", (image.folder / "images").string()},
                       {"annotations", (image.folder / "a.json").string()},
                       {"size", std::vector<int64_t>{20, 20}}}};
  const auto others = make_unlabelled(photos.path(), {choice}, *image.data);
  EXPECT_EQ(others->size(), 2);
  EXPECT_EQ(others->info().classes, 2);
  const auto one = make_unlabelled(photos / "deep/b.png", {choice}, *image.data);
  EXPECT_EQ(one->size(), 1);
  EXPECT_EQ(dynamic_cast<const DetectionDataset&>(*one).file_size(0), (ImageSize{30, 30}));
}

}  // namespace
}  // namespace autotrain
