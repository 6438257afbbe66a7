#include "autotrain/log.h"
#include "data/datasets.h"
#include "data/yolo_labels.h"
#include "support/images.h"
#include "support/samples.h"
#include "support/support.h"

namespace autotrain {
namespace {

using test::TemporaryFolder;

using Keys = std::map<std::string, Value>;

Choice choice(const TemporaryFolder& folder, Keys keys = {}) {
  keys.insert({"images", (folder / "images").string()});
  keys.insert({"labels", (folder / "labels").string()});
  keys.insert({"size", std::vector<int64_t>{20, 20}});
  if (!keys.contains("names")) keys.insert({"classes", int64_t{3}});
  return {"yolo", std::move(keys)};
}

constexpr uint64_t kSeed = 3;  // leaves no part of a box that is too small to keep its label

// A white rectangle of whole pixels on black, and its label line.
struct Scene {
  int64_t height, width;
  Box box;

  std::string image() const {
    DecodedImage image = test::plain_image(height, width, {0, 0, 0});
    for (int64_t y = box.top; y < box.top + box.height; ++y) {
      for (int64_t x = box.left; x < box.left + box.width; ++x) {
        for (int64_t c = 0; c < 3; ++c) image.pixels[static_cast<size_t>(3 * (y * width + x) + c)] = 255;
      }
    }
    return test::png_file(image);
  }

  std::string label(int64_t category) const {
    const auto part = [](int64_t twice, int64_t side) {
      return " " + std::to_string(static_cast<double>(twice) / 2 / static_cast<double>(side));
    };
    return std::to_string(category) + part(2 * box.left + box.width, width) +
           part(2 * box.top + box.height, height) + part(2 * box.width, width) +
           part(2 * box.height, height) + "\n";
  }
};

void add(const TemporaryFolder& folder, const std::string& name, const Scene& scene, int64_t category) {
  folder.write("images/" + name + ".png", scene.image());
  folder.write("labels/" + name + ".txt", scene.label(category));
}

// The edges of what is bright in [3, H, W], as parts of the image: left, top, right, bottom.
std::array<double, 4> bright_edges(const torch::Tensor& image) {
  const torch::Tensor at = (image[1] > 0.5).nonzero();
  const auto least = at.amin(0), most = at.amax(0) + 1;
  const auto height = static_cast<double>(image.size(1)), width = static_cast<double>(image.size(2));
  return {static_cast<double>(least[1].item<int64_t>()) / width,
          static_cast<double>(least[0].item<int64_t>()) / height,
          static_cast<double>(most[1].item<int64_t>()) / width,
          static_cast<double>(most[0].item<int64_t>()) / height};
}

// The box must lie where the bright pixels are, to a pixel.
void expect_around(const torch::Tensor& row, const torch::Tensor& image) {
  const auto number = [&](int64_t i) { return static_cast<double>(row[i].item<float>()); };
  const std::array<double, 4> edges = bright_edges(image);
  const double pixel = 1.01 / 20;
  EXPECT_NEAR(number(1) - number(3) / 2, edges[0], pixel);
  EXPECT_NEAR(number(2) - number(4) / 2, edges[1], pixel);
  EXPECT_NEAR(number(1) + number(3) / 2, edges[2], pixel);
  EXPECT_NEAR(number(2) + number(4) / 2, edges[3], pixel);
}

TEST(Yolo, BoxesFollowTheLetterboxedImage) {
  const TemporaryFolder folder;
  add(folder, "wide", {20, 40, {4, 24, 8, 12}}, 2);
  const Batch batch = test::samples(*make_dataset({choice(folder)}), {0});
  ASSERT_EQ(batch.targets.sizes(), (std::vector<int64_t>{1, 1, 5}));
  const torch::Tensor expected = torch::tensor({2.0, 0.75, 0.25 + 0.2, 0.3, 0.2}, torch::kFloat32);
  EXPECT_TRUE(batch.targets[0][0].allclose(expected, 1e-5, 1e-5)) << batch.targets;
  expect_around(batch.targets[0][0], batch.inputs[0]);
  EXPECT_EQ(batch.inputs[0].slice(1, 0, 5).max().item<float>(), 0) << "black above the image";
}

TEST(Yolo, BoxesAreMirroredWithTheImage) {
  const TemporaryFolder folder;
  add(folder, "a", {20, 20, {3, 2, 6, 5}}, 0);
  const auto data = make_dataset({choice(folder), {.flip = true}});
  std::set<float> centres;
  for (int64_t epoch = 0; epoch < 20; ++epoch) {
    const Batch batch = test::samples(*data, {0}, {epoch}, kSeed);
    expect_around(batch.targets[0][0], batch.inputs[0]);
    centres.insert(batch.targets[0][0][1].item<float>());
  }
  EXPECT_EQ(centres.size(), 2u);
}

TEST(Yolo, MosaicsKeepBoxesOnTheirObjects) {
  const TemporaryFolder folder;
  add(folder, "bright", {30, 24, {8, 6, 9, 10}}, 1);
  for (const char* const name : {"x", "y", "z"}) {
    folder.write(std::string("images/") + name + ".png",
                 test::png_file(test::plain_image(25, 25, {20, 20, 20})));
  }
  const auto data = make_dataset({choice(folder), {.flip = true, .mosaic = 1}});
  int found = 0;
  for (int64_t epoch = 0; epoch < 60; ++epoch) {
    const Batch batch = test::samples(*data, {0}, {epoch}, kSeed);
    if (batch.targets.size(1) > 1 || batch.targets[0][0][0].item<float>() < 0)
      continue;  // drawn twice, or cut away
    expect_around(batch.targets[0][0], batch.inputs[0]);
    ++found;
  }
  EXPECT_GT(found, 15);
}

TEST(Yolo, RowsWithoutABoxHaveClassMinusOne) {
  const TemporaryFolder folder;
  add(folder, "a", {10, 10, {2, 2, 4, 4}}, 1);
  folder.write("images/b.png", test::png_file(test::plain_image(10, 10, {9, 9, 9})));
  folder.write("labels/a.txt", "1 0.5 0.5 0.2 0.2\n\n0 0.1 0.1 0.2 0.2\r\n");
  std::string said;
  log::set_sink([&](const log::Record& record) { said += record.text; }, log::Level::kInfo);
  const auto data = make_dataset({choice(folder)});
  log::set_sink(log::terminal_sink(), log::Level::kWarning);
  EXPECT_TRUE(test::holds(said, "1 without a label file"));
  const Batch batch = test::samples(*data, {1, 0});
  ASSERT_EQ(batch.targets.sizes(), (std::vector<int64_t>{2, 2, 5}));
  EXPECT_TRUE(batch.targets.select(2, 0).equal(torch::tensor({{-1.f, -1.f}, {1.f, 0.f}})));
  EXPECT_EQ(test::samples(*data, {1}).targets.size(1), 1) << "never no rows";
}

struct BadLine {
  const char* text;
  const char* message;
};

TEST(Yolo, BadLinesNameFileAndLine) {
  const std::vector<BadLine> lines = {{"0 0.5 0.5 0.1", "has 4 values"},
                                      {"0 0.5 0.5 0.1 0.1 0.7", "has 6 values"},
                                      {"3 0.5 0.5 0.1 0.1", "from 0 to 2"},
                                      {"-1 0.5 0.5 0.1 0.1", "from 0 to 2"},
                                      {"1.5 0.5 0.5 0.1 0.1", "the class \"1.5\""},
                                      {"cat 0.5 0.5 0.1 0.1", "the class \"cat\""},
                                      {"0 1.5 0.5 0.1 0.1", "from 0 to 1"},
                                      {"0 0.5 -0.1 0.1 0.1", "from 0 to 1"},
                                      {"0 0.5 0.5 .nan 0.1", "from 0 to 1"},
                                      {"0 0.5 0.5 nan 0.1", "from 0 to 1"},
                                      {"0 0.5 0.5 0 0.1", "the box is empty"},
                                      {"0,0.5,0.5,0.1,0.1", "has 1 values"}};
  for (const BadLine& line : lines) {
    const Error error = test::expect_error(ExitCode::kBadData, [&] {
      parse_labels(std::string("0 0.5 0.5 1 1\n\n") + line.text, "sample 4: a.txt", 3);
    });
    EXPECT_EQ(error.where(), "sample 4: a.txt:3") << line.text;
    EXPECT_TRUE(test::holds(error.problem(), line.message)) << line.text;
  }
}

TEST(Yolo, ABadSampleNamesItsNumberAndFile) {
  const TemporaryFolder folder;
  add(folder, "a", {10, 10, {2, 2, 4, 4}}, 1);
  add(folder, "b", {10, 10, {2, 2, 4, 4}}, 1);
  folder.write("labels/b.txt", "1 0.5\n");
  const auto data = make_dataset({choice(folder)});
  Error error = test::expect_error(ExitCode::kBadData, [&] { test::samples(*data, {0, 1}); });
  EXPECT_EQ(error.where(), "sample 1: " + (folder / "labels/b.txt").string() + ":1");
  folder.write("labels/b.txt", "");
  folder.write("images/b.png", "not a picture");
  error = test::expect_error(ExitCode::kBadData, [&] { test::samples(*data, {0, 1}); });
  EXPECT_EQ(error.where(), "sample 1: " + (folder / "images/b.png").string());
}

TEST(Yolo, BoxesAreCutAndDroppedAtTheBorder) {
  const std::vector<LabelledBox> boxes = {
      {0, 0.5, 0.5, 0.2, 0.2}, {1, 0.05, 0.5, 0.2, 0.2}, {2, 0.26, 0.5, 0.2, 0.2}};
  // The right three quarters of an image of 100 × 100 fill everything.
  const Placement placement{{0, 25, 100, 75}, {0, 0, 50, 50}};
  const auto left = place_boxes(boxes, {100, 100}, placement, {50, 50});
  ASSERT_EQ(left.size(), 2u) << "the second lies outside";
  EXPECT_NEAR(left[0].centre_x, (0.5 - 0.25) / 0.75, 1e-9);
  EXPECT_NEAR(left[0].width, 0.2 / 0.75, 1e-9);
  EXPECT_EQ(left[1].category, 2);
  EXPECT_NEAR(left[1].width, 0.11 / 0.75, 1e-9) << "cut at the left edge";
  EXPECT_NEAR(left[1].centre_x, 0.055 / 0.75, 1e-9);
}

TEST(Yolo, FoldersAndKeysThatCannotServeSayWhy) {
  const TemporaryFolder folder;
  test::expect_error(ExitCode::kMissingFile, [&] { make_dataset({choice(folder)}); });
  folder.write("images/a.png", test::png_file(test::plain_image(4, 4, {1, 2, 3})));
  Error error = test::expect_error(ExitCode::kMissingFile, [&] { make_dataset({choice(folder)}); });
  EXPECT_TRUE(test::holds(error.what(), "none of the images"));
  folder.write("labels/a.txt", "");
  folder.write("names", "cat\n\ndog\n");
  EXPECT_EQ(make_dataset({choice(folder, {{"names", (folder / "names").string()}})})->info().classes, 2);
  test::expect_error(ExitCode::kBadRecipe, [&] {
    make_dataset({choice(folder, {{"names", (folder / "names").string()}, {"classes", int64_t{3}}})});
  });
  test::expect_error(ExitCode::kBadRecipe, [&] {
    make_dataset({Choice{
        "yolo", {{"images", (folder / "images").string()}, {"labels", (folder / "labels").string()}}}});
  });
  test::expect_error(ExitCode::kBadRecipe, [] { make_dataset({Choice{"yolo", {}}}); });
}

}  // namespace
}  // namespace autotrain
