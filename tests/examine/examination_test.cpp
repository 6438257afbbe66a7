#include "examine/examination.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "autotrain/data.h"
#include "data/box_drawing.h"
#include "examine/examination_report.h"
#include "support/support.h"

namespace autotrain {
namespace {

// n images [3, 5, 7], of which pixel p of channel c of image i is i everywhere.
class NumberedImages final : public Dataset {
 public:
  explicit NumberedImages(int64_t count) : count_(count) {}
  int64_t size() const override { return count_; }
  Batch get(c10::ArrayRef<int64_t> indices, const SampleRandom&) const override {
    std::vector<torch::Tensor> images;
    for (const int64_t index : indices) images.push_back(torch::full({3, 5, 7}, static_cast<float>(index)));
    return {.inputs = torch::stack(images),
            .targets = torch::tensor(indices.vec()),
            .samples = static_cast<int64_t>(indices.size())};
  }
  DatasetInfo info() const override {
    return {.kind = DatasetInfo::Kind::kImages, .input_shape = {3, 5, 7}, .classes = count_};
  }

 private:
  int64_t count_;
};

Recipe recipe_of_tables(const std::filesystem::path& folder) {
  Recipe recipe;
  const auto table = [&](const char* name) {
    return Choice{"table", {{"file", (folder / name).string()}, {"target", std::string("y")}}};
  };
  recipe.data.train = table("train.csv");
  recipe.data.validation = table("validation.csv");
  recipe.loss.name = "mean_squared_error";
  return recipe;
}

void write_table(const std::filesystem::path& path, int rows) {
  std::ofstream file(path);
  file << "x,y\n";
  for (int i = 0; i < rows; ++i) file << i * 7 % 11 << ".5," << i << ".25\n";
}

TEST(DataLook, CountsAllPlacesOfADoubtAndKeepsTheFirst) {
  DataLook look;
  for (int i = 0; i < 25; ++i) look.doubt("fields that are no numbers", "correct them", std::to_string(i));
  look.doubt("columns of one value", "leave them out").stops = true;
  ASSERT_EQ(look.doubts.size(), 2);
  EXPECT_EQ(look.doubts[0].count, 25);
  EXPECT_EQ(look.doubts[0].places.size(), Doubt::kMostPlaces);
  EXPECT_EQ(look.doubts[0].places.back(), "9");
  EXPECT_EQ(warning_of(look.doubts[0]), "fields that are no numbers (25), the first 0 · try: correct them");
  EXPECT_EQ(warning_of(look.doubts[1]), "columns of one value · try: leave them out");
}

TEST(SampleSheet, HasSamplesInTheirOrderOverTheWholeOfTheData) {
  const auto sheet = draw_samples(NumberedImages(100), 10, 1);
  ASSERT_TRUE(sheet);
  EXPECT_EQ(sheet->columns, 8);
  ASSERT_EQ(sheet->entries.size(), 10);
  EXPECT_EQ(sheet->entries[3].sample, 30);
  EXPECT_EQ(sheet->entries[3].target, "30");
  EXPECT_EQ(sheet->least, 0);
  EXPECT_EQ(sheet->greatest, 90);
  EXPECT_EQ(sheet->png.substr(1, 3), "PNG");
}

TEST(SampleSheet, HasNoMoreSamplesThanThereAre) {
  const auto sheet = draw_samples(NumberedImages(3), 10, 1);
  ASSERT_TRUE(sheet);
  EXPECT_EQ(sheet->columns, 3);
  EXPECT_EQ(sheet->entries.size(), 3);
}

TEST(SampleSheet, IsNotDrawnOfWhatIsNoImage) {
  EXPECT_FALSE(draw_samples(TensorDataset(torch::zeros({4, 6})), 4, 1));
}

TEST(BoxDrawing, OutlinesABoxAndLeavesTheRest) {
  torch::Tensor images = torch::zeros({2, 3, 10, 20}, torch::kUInt8);
  // Of 20 × 10 pixels: columns 5 to 15, rows 2 to 6; the second reaches beyond the image; class −1 is none.
  draw_boxes(images, torch::tensor({{{0.0, 0.5, 0.4, 0.5, 0.4}, {-1.0, 0.5, 0.5, 1.0, 1.0}},
                                    {{1.0, 1.0, 1.0, 0.2, 0.4}, {-1.0, 0.0, 0.0, 0.0, 0.0}}}));
  const torch::Tensor drawn = images.amax(1) > 0;
  torch::Tensor expected = torch::zeros({2, 10, 20}, torch::kBool);
  expected[0].slice(0, 2, 7).slice(1, 5, 16).fill_(true);
  expected[0].slice(0, 3, 6).slice(1, 6, 15).fill_(false);
  expected[1].slice(0, 8, 10).slice(1, 18, 20).fill_(true);
  EXPECT_TRUE(torch::equal(drawn, expected)) << drawn;
  EXPECT_FALSE(torch::equal(images[0].select(1, 2).select(1, 5), images[1].select(1, 8).select(1, 18)))
      << "two classes have two colours";
}

// Of 40 × 40 pixels: columns and rows 10 to 30.
torch::Tensor drawn_box(const BoxStyle& style) {
  torch::Tensor images = torch::full({1, 3, 40, 40}, 100, torch::kUInt8);
  draw_boxes(images, torch::tensor({{{1.0, 0.5, 0.5, 0.5, 0.5}}}), style);
  return images[0];
}

TEST(BoxDrawing, DashesAreBlackAndWhiteOnTheLineOfABroaderOutline) {
  const torch::Tensor dashed = drawn_box({.dashed = true}), broad = drawn_box({.width = 3});
  const auto is = [](const torch::Tensor& image, int64_t value) { return image.eq(value).all(0); };
  const torch::Tensor line = dashed.ne(100).any(0), outline = broad.ne(100).any(0);
  EXPECT_TRUE((is(dashed, 0) | is(dashed, 255) | line.logical_not()).all().item<bool>());
  EXPECT_GT(is(dashed, 0).sum().item<int64_t>(), 20);
  EXPECT_GT(is(dashed, 255).sum().item<int64_t>(), 20);
  EXPECT_EQ(line.sum().item<int64_t>(), 4 * 20);
  EXPECT_TRUE((outline | line.logical_not()).all().item<bool>());
  EXPECT_GT(outline.sum().item<int64_t>(), 2 * line.sum().item<int64_t>());
}

TEST(BoxDrawing, NumbersStandInTheImageEvenOfABoxAtItsEdge) {
  torch::Tensor images = torch::full({1, 3, 40, 40}, 100, torch::kUInt8);
  draw_boxes(images, torch::tensor({{{0.0, 0.98, 0.98, 0.04, 0.04}}}), {.numbered = true});
  const torch::Tensor ink = images[0].eq(0).all(0);
  EXPECT_EQ(ink.sum().item<int64_t>(), 4 * 8) << "a 1 has eight dots of four pixels";
  torch::Tensor two = torch::full({1, 3, 40, 40}, 100, torch::kUInt8);
  draw_boxes(two, torch::tensor({{{-1.0, 0.5, 0.5, 0.5, 0.5}, {0.0, 0.5, 0.5, 0.5, 0.5}}}),
             {.numbered = true});
  EXPECT_EQ(two[0].eq(0).all(0).sum().item<int64_t>(), 4 * 11) << "the second of the image";
}

TEST(BoxDrawing, CountsBoxesByTheirClasses) {
  const torch::Tensor boxes = torch::tensor({{1.0, 0.5, 0.5, 0.1, 0.1},
                                             {0.0, 0.5, 0.5, 0.1, 0.1},
                                             {1.0, 0.2, 0.5, 0.1, 0.1},
                                             {-1.0, 0.0, 0.0, 0.0, 0.0}});
  EXPECT_EQ(boxes_in_words(boxes, {"bag"}), "1 bag, 2 of class 1");
  EXPECT_EQ(boxes_in_words(boxes.slice(0, 3), {"bag"}), "no box");
}

TEST(Examination, LooksAtTheOtherSetWhereOneCannotBeRead) {
  const test::TemporaryFolder folder;
  write_table(folder.path() / "validation.csv", 20);
  const Examination found = examine(recipe_of_tables(folder.path()), {});
  ASSERT_EQ(found.sets.size(), 2);
  EXPECT_EQ(found.sets[0].failure_code, ExitCode::kMissingFile);
  EXPECT_NE(found.sets[0].failure.find("train.csv"), std::string::npos) << found.sets[0].failure;
  EXPECT_GE(found.faults(), 1);
  EXPECT_NE(text_of(found).find("fault: "), std::string::npos);
}

TEST(Examination, SaysWhatAModelGetsOfEachSet) {
  const test::TemporaryFolder folder;
  write_table(folder.path() / "train.csv", 30);
  write_table(folder.path() / "validation.csv", 20);
  const Examination found = examine(recipe_of_tables(folder.path()), {});
  EXPECT_EQ(found.faults(), 0) << text_of(found);
  const nlohmann::ordered_json json = json_of(found);
  EXPECT_EQ(json["sets"][0]["role"], "training");
  EXPECT_EQ(json["sets"][1]["role"], "validation");
  EXPECT_EQ(json["sets"][0]["facts"]["a sample"], "1");
  EXPECT_EQ(json["sets"][0]["failure"], nullptr);
}

}  // namespace
}  // namespace autotrain
