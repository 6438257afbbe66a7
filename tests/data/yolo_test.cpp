#include "autotrain/log.h"
#include "base/text.h"
#include "data/box_placement.h"
#include "data/closing.h"
#include "data/datasets.h"
#include "data/detection_dataset.h"
#include "data/yolo_description.h"
#include "data/yolo_files.h"
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

TEST(Yolo, EvaluationsKnowWhereTheImageLiesInItsSample) {
  const TemporaryFolder folder;
  add(folder, "tall", {40, 20, {4, 4, 8, 12}}, 2);
  const Choice own = choice(folder);
  const Batch batch = test::samples(*make_dataset({.choice = own, .training = &own}), {0});
  ASSERT_EQ(batch.targets.sizes(), (std::vector<int64_t>{1, 1, 12}));
  const torch::Tensor more = torch::tensor({0.0, 8.0 * 12, 4.0, 0.25, 0.0, 0.75, 1.0}, torch::kFloat32);
  EXPECT_TRUE(batch.targets[0][0].slice(0, 5).allclose(more, 1e-5, 1e-3)) << batch.targets;
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

TEST(Yolo, WarpedBoxesStayOnTheirObjects) {
  const TemporaryFolder folder;
  add(folder, "bright", {30, 24, {8, 6, 9, 10}}, 1);
  const auto data = make_dataset({choice(folder), {.flip = true, .scale = 0.3, .translate = 0.2}});
  std::set<float> widths;
  for (int64_t epoch = 0; epoch < 40; ++epoch) {
    const Batch batch = test::samples(*data, {0}, {epoch}, kSeed);
    if (batch.targets[0][0][0].item<float>() < 0) continue;  // moved out of sight
    expect_around(batch.targets[0][0], batch.inputs[0]);
    widths.insert(batch.targets[0][0][3].item<float>());
  }
  EXPECT_GT(widths.size(), 20u);
}

// Three dark images beside the bright one, of which each that is drawn brings a box of its own.
void add_four(const TemporaryFolder& folder) {
  add(folder, "bright", {20, 20, {5, 5, 10, 10}}, 1);
  for (const char* const name : {"x", "y", "z"}) add(folder, name, {20, 20, {6, 6, 8, 8}}, 2);
}

TEST(Yolo, ABlendHasTheBoxesOfBoth) {
  const TemporaryFolder folder;
  add_four(folder);
  const auto data = make_dataset({choice(folder), {.mix_up = 1}});
  std::set<double> shares;
  for (int64_t epoch = 0; epoch < 20; ++epoch) {
    const Batch batch = test::samples(*data, {0}, {epoch}, kSeed);
    ASSERT_EQ(batch.targets.sizes(), (std::vector<int64_t>{1, 2, 5}));
    EXPECT_EQ(batch.targets[0][0][0].item<float>(), 1);
    shares.insert(batch.inputs[0][0][5][5].item<double>());  // of the bright one's corner alone
  }
  EXPECT_GT(shares.size(), 8u);
  EXPECT_GT(*shares.begin(), 0.0);
  EXPECT_LE(*shares.rbegin(), 1.0 + 1e-6);
}

TEST(Yolo, FromItsPositionOnAClosedSetGivesItsImagesAsTheyAre) {
  const TemporaryFolder folder;
  add_four(folder);
  const auto data = make_dataset({choice(folder), {.mosaic = 1, .mix_up = 1, .close_mosaic = 0.5}});
  const auto plain = make_dataset({choice(folder)});
  dynamic_cast<Closing&>(*data).close_from(100);
  const std::vector<int64_t> indices = {0, 1, 2}, epochs = {7, 7, 7};
  const auto get = [&](const std::vector<int64_t>& positions) {
    return data->get(indices, SampleRandom(kSeed, indices, epochs, positions)).inputs;
  };
  const torch::Tensor whole = test::samples(*plain, indices).inputs;
  EXPECT_TRUE(get({100, 101, 5000}).equal(whole));
  const torch::Tensor open = get({97, 98, 99}), both = get({98, 99, 100});
  for (int64_t i = 0; i < 3; ++i) EXPECT_FALSE(open[i].equal(whole[i])) << i;
  EXPECT_TRUE(both.narrow(0, 0, 2).equal(open.narrow(0, 0, 2)));
  EXPECT_TRUE(both[2].equal(whole[2]));
  EXPECT_TRUE(get({}).equal(open)) << "samples of no run";
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

std::vector<LabelledBox> boxes_of(const std::string& text, LongerLines longer = LongerLines::kRefuse) {
  return parse_labels(text, "a.txt", {.classes = 3, .longer_lines = longer});
}

TEST(Yolo, BadLinesNameFileAndLine) {
  const std::vector<std::pair<std::string, const char*>> lines = {
      {"0 0.5 0.5 0.1", "has 4 values"},
      {"0 0.5 0.5 0.1 0.1 0.7", "a sixth is a confidence"},
      {"0 0.5 0.5 0.1 0.1 0.7 0.2", "has 7 values, as a class and the corners of a polygon"},
      {"0 0.5 0.5 0.1 0.1 0.7 0.2 0.3", "has 8 values"},
      {"3 0.5 0.5 0.1 0.1", "from 0 to 2"},
      {"-1 0.5 0.5 0.1 0.1", "from 0 to 2"},
      {"1.5 0.5 0.5 0.1 0.1", "the class \"1.5\""},
      {"cat 0.5 0.5 0.1 0.1", "the class \"cat\""},
      {"0 1.5 0.5 0.1 0.1", "\"1.5\" is not a number from 0 to 1"},
      {"0 215 0.5 0.1 0.1", "\"215\" is not a number from 0 to 1, it seems to be in pixels"},
      {"0 0.5 -0.1 0.1 0.1", "from 0 to 1"},
      {"0 0.5 0.5 .nan 0.1", "from 0 to 1"},
      {"0 0.5 0.5 nan 0.1", "from 0 to 1"},
      {"0,0.5,0.5,0.1,0.1", "has commas"},
      {"0 0,5 0,5 0,1 0,1", "has commas"}};
  for (const auto& [line, message] : lines) {
    const Error error = test::expect_error(ExitCode::kBadData, [&] { boxes_of("0 0.5 0.5 1 1\n\n" + line); });
    EXPECT_EQ(error.where(), "a.txt:3") << line;
    EXPECT_TRUE(test::holds(error.problem(), message)) << line;
  }
  const Error error =
      test::expect_error(ExitCode::kBadData, [] { boxes_of(std::string("\xff\xfe\x30\0\x20\0", 6)); });
  EXPECT_TRUE(test::holds(error.problem(), "UTF-16"));
}

TEST(Yolo, LinesAreReadAsTheirWritersMeantThem) {
  const LabelledBox box{1, 0.5, 0.25, 0.125, 0.5};
  const std::vector<LabelledBox> one = {box}, two = {box, {2, 0.5, 0.5, 1, 1}};
  EXPECT_EQ(boxes_of("\xef\xbb\xbf"
                     "1 .5 .25 .125 .5"),
            one)
      << "a byte-order mark";
  EXPECT_EQ(boxes_of("1.0\t5e-1  0.25 0.125 0.5 \r\n2 0.5 0.5 1 1\r\n"), two) << "Windows";
  EXPECT_EQ(boxes_of("1 .5 .25 .125 .5\r2 0.5 0.5 1 1\r"), two) << "old Macs";
  EXPECT_EQ(boxes_of("1 .5 .25 .125 .5\n1 0.50 0.25 0.125 0.5\n"), one) << "the same twice";
  EXPECT_EQ(boxes_of("2 0.5 0.5 1.0021 1"), (std::vector<LabelledBox>{two[1]})) << "a little too wide";
  const std::string corners = "1 0.25 0.5 0.75 0.5 0.5 0.75\n";
  EXPECT_EQ(boxes_of(corners, LongerLines::kPolygon), (std::vector<LabelledBox>{{1, 0.5, 0.625, 0.5, 0.25}}));
  EXPECT_EQ(boxes_of(corners, LongerLines::kDrop), (std::vector<LabelledBox>{{1, 0.25, 0.5, 0.75, 0.5}}));
  const LabelFile file = read_label_file(
      "2 0.5 0.5 1.002 1\n2 0.5 0.5 1 1\nx\n0 0.5 0.5 0.1 9\n1 0.5 0.5 0 0.1\n", {.classes = 3});
  EXPECT_EQ(file.clipped, std::vector<size_t>{1});
  EXPECT_EQ(file.doubled, std::vector<size_t>{2});
  EXPECT_EQ(file.without_area, std::vector<size_t>{5});
  ASSERT_EQ(file.faults.size(), 2u);
  EXPECT_EQ(file.faults[1].line, 4u);
}

std::string said_by(const std::function<void()>& action) {
  std::string said;
  log::set_sink([&](const log::Record& record) { said += std::string(record.text) + "\n"; },
                log::Level::kWarning);
  action();
  log::set_sink(log::terminal_sink(), log::Level::kWarning);
  return said;
}

// A sample is bad by its own image, not by those that a mosaic draws beside it.
TEST(Yolo, MosaicsLeaveFaultyImagesOut) {
  const TemporaryFolder folder;
  for (const char* const name : {"a", "b", "c", "d"}) add(folder, name, {10, 10, {2, 2, 4, 4}}, 1);
  for (const char* const name : {"b", "c", "d"}) folder.write(cat("labels/", name, ".txt"), "1 0.5\n");
  std::unique_ptr<Dataset> data;
  said_by([&] {
    data = make_dataset({.choice = choice(folder), .augment = {.mosaic = 1, .mix_up = 1}, .skips_bad = true});
  });
  for (int64_t epoch = 0; epoch < 10; ++epoch) test::samples(*data, {0}, {epoch}, kSeed);
  test::expect_error(ExitCode::kBadData, [&] { test::samples(*data, {1}, {0}, kSeed); });
  auto& images = dynamic_cast<DetectionDataset&>(*data);
  images.forget_boxes();
  EXPECT_LT(test::samples(images, {1}).targets.max().item<float>(), 0.1)
      << "for predictions, which need none";
}

TEST(Yolo, AnImageThatCannotBeReadIsAFaultOfItsOwnSampleAlone) {
  const TemporaryFolder folder;
  for (const char* const name : {"a", "b", "c"}) add(folder, name, {10, 10, {2, 2, 4, 4}}, 1);
  folder.write("images/b.png", "not a picture");
  const auto make = [&](bool skips) {
    return make_dataset(
        {.choice = choice(folder), .augment = {.mosaic = 1, .mix_up = 1}, .skips_bad = skips});
  };
  const auto data = make(true);
  for (int64_t epoch = 0; epoch < 10; ++epoch)
    EXPECT_NO_THROW(test::samples(*data, {0, 2}, {epoch, epoch}, kSeed)) << epoch;
  test::expect_error(ExitCode::kBadData, [&] { test::samples(*data, {1}, {0}, kSeed); });
  const auto strict = make(false);
  const auto all = [&] {
    for (int64_t epoch = 0; epoch < 10; ++epoch) test::samples(*strict, {0}, {epoch}, kSeed);
  };
  const Error error = test::expect_error(ExitCode::kBadData, all);
  EXPECT_TRUE(test::holds(error.where(), "b.png")) << "a run without skipping ends, by the file's name";
}

TEST(Yolo, LabelsOfOneFolderDoNotGoWithImagesOfSeveral) {
  const TemporaryFolder folder;
  for (const char* const name : {"one/a", "two/b"}) add(folder, name, {10, 10, {2, 2, 4, 4}}, 1);
  folder.write("data.yaml", "train: [images/one, images/two]\nnames: [a, b, c]\n");
  Keys keys = {{"file", (folder / "data.yaml").string()},
               {"split", std::string("train")},
               {"size", std::vector<int64_t>{20, 20}}};
  EXPECT_EQ(make_dataset({Choice{"yolo", keys}})->size(), 2);
  keys["labels"] = (folder / "labels").string();
  const Error error = test::expect_error(ExitCode::kBadRecipe, [&] { make_dataset({Choice{"yolo", keys}}); });
  EXPECT_TRUE(test::holds(error.what(), "names one folder"));
}

TEST(Yolo, FaultsOfAllLabelFilesAreFoundAtOnce) {
  const TemporaryFolder folder;
  for (const char* const name : {"a", "b", "c"}) add(folder, name, {10, 10, {2, 2, 4, 4}}, 1);
  folder.write("labels/a.txt", "1 0.5\n0 0.5 0.5 0.2 1.0021\n");
  folder.write("labels/c.txt", "0 0.5 0.5 0.1 0.1\n0 0.5 x 0.2 0.2\n1 0.5\n");
  const std::string said = said_by([&] {
    const Error error = test::expect_error(ExitCode::kBadData, [&] { make_dataset({choice(folder)}); });
    EXPECT_TRUE(test::holds(error.problem(), "3 faults in 2 of 3 label files"));
    EXPECT_TRUE(test::holds(error.problem(), "lines of fewer than five values (2)"));
    for (const char* const place : {"a.txt:1: has 2 values", "c.txt:3: has 2 values", "c.txt:2: \"x\""})
      EXPECT_TRUE(test::holds(error.problem(), place));
  });
  EXPECT_TRUE(test::holds(said, "a.txt:2")) << "what is clipped is told";
  std::unique_ptr<Dataset> data;
  const std::string skipped =
      said_by([&] { data = make_dataset({.choice = choice(folder), .skips_bad = true}); });
  EXPECT_TRUE(test::holds(skipped, "3 faults in 2 of 3 label files"));
  EXPECT_EQ(test::samples(*data, {1}).targets.size(1), 1);
  test::expect_error(ExitCode::kBadData, [&] { test::samples(*data, {0}); });
}

TEST(Yolo, BoxesWithoutAnAreaAreLeftOutAndToldUnlessMostAreSo) {
  const TemporaryFolder folder;
  for (const char* const name : {"a", "b"}) add(folder, name, {10, 10, {2, 2, 4, 4}}, 1);
  folder.write("labels/a.txt", "0 0.5 0.5 0 0.1\n0 0.5 0.5 0.2 0.1\n");
  std::unique_ptr<Dataset> data;
  const std::string said = said_by([&] { data = make_dataset({choice(folder)}); });
  EXPECT_TRUE(test::holds(said, "boxes without an area, which are left out (1)")) << said;
  EXPECT_TRUE(test::holds(said, "a.txt:1")) << said;
  EXPECT_EQ(test::samples(*data, {0}).targets.size(1), 1);
  folder.write("labels/b.txt", "0 0.5 0.5 0 0\n1 0.5 0.5 0 0\n");
  said_by([&] {
    const Error error = test::expect_error(ExitCode::kBadData, [&] { make_dataset({choice(folder)}); });
    EXPECT_TRUE(test::holds(error.problem(), "lines most of which are boxes without an area"));
  });
}

TEST(Yolo, ABadSampleNamesItsNumberAndFile) {
  const TemporaryFolder folder;
  add(folder, "a", {10, 10, {2, 2, 4, 4}}, 1);
  add(folder, "b", {10, 10, {2, 2, 4, 4}}, 1);
  folder.write("labels/b.txt", "1 0.5\n");
  std::unique_ptr<Dataset> data;
  said_by([&] { data = make_dataset({.choice = choice(folder), .skips_bad = true}); });
  Error error = test::expect_error(ExitCode::kBadData, [&] { test::samples(*data, {0, 1}); });
  EXPECT_EQ(error.where(), "sample 1: " + (folder / "labels/b.txt").string() + ":1");
  folder.write("labels/b.txt", "");
  data = make_dataset({choice(folder)});
  folder.write("images/b.png", "not a picture");
  error = test::expect_error(ExitCode::kBadData, [&] { test::samples(*data, {0, 1}); });
  EXPECT_EQ(error.where(), "sample 1: " + (folder / "images/b.png").string());
}

TEST(Yolo, BoxesAreThoseOfTheUprightImage) {
  const TemporaryFolder folder;
  const Scene upright{20, 10, {4, 1, 8, 3}};
  DecodedImage stored = decode_image(test::bytes_of(upright.image()), "x");
  // Stored so that a quarter turn to the right makes it upright.
  const DecodedImage whole = stored;
  stored.size = stored.full_size = {10, 20};
  for (int64_t y = 0; y < 10; ++y) {
    for (int64_t x = 0; x < 20; ++x) {
      for (int64_t c = 0; c < 3; ++c)
        stored.pixels[static_cast<size_t>(3 * (y * 20 + x) + c)] =
            whole.pixels[static_cast<size_t>(3 * (x * 10 + 9 - y) + c)];
    }
  }
  folder.write("images/a.png", test::with_orientation(test::png_file(stored), 6));
  folder.write("labels/a.txt", upright.label(1));
  const Choice turned = choice(folder);
  const auto data = make_dataset({turned});
  const Batch batch = test::samples(*data, {0});
  expect_around(batch.targets[0][0], batch.inputs[0]);
  const DataLook look = look_at({turned}, *data, nullptr, {.depth = LookDepth::kStart});
  ASSERT_EQ(look.doubts.size(), 1u);
  EXPECT_TRUE(test::holds(look.doubts[0].kind, "stored turned"));
}

TEST(Yolo, ClassNamesComeFromListsAndFromYaml) {
  const TemporaryFolder folder;
  const auto names = [&](const char* file, const std::string& content) {
    return read_class_names(folder.write(file, content));
  };
  const std::vector<std::string> two = {"cat", "dog"};
  EXPECT_EQ(names("names",
                  "\xef\xbb\xbf"
                  "cat\r\n\ndog\r\n"),
            two);
  EXPECT_EQ(names("data.yaml", "path: x\ntrain: images\nnc: 2\nnames: [cat, dog]\n"), two);
  EXPECT_EQ(names("map.yml", "names:\n  1: dog\n  0: cat\n"), two);
  EXPECT_EQ(names("list.txt", "train: images\nnames:\n- cat\n- dog\n"), two) << "by its content";
  EXPECT_EQ(names("nc.yaml", "nc: 3\n").size(), 3u);
  for (const auto& [content, message] :
       {std::pair{"nc: 3\nnames: [cat, dog]\n", "nc is 3, and names has 2"},
        {"names: {1: cat, 2: dog}\n", "the class \"2\" is not a number from 0"},
        {"train: x\n", "has no key names"},
        {"names: {0: a, 0: b}\n", "stands twice"},
        {"names: {0: a, 00: b}\n", "named twice"},
        {"names: [a\n", ":2:"}}) {
    const Error error = test::expect_error(ExitCode::kBadData, [&] { names("bad.yaml", content); });
    EXPECT_TRUE(test::holds(error.what(), message));
  }
}

// PowerShell writes UTF-16, older editors of Windows its own letters.
TEST(Yolo, ListsThatAreNoUtf8AreRefused) {
  const TemporaryFolder folder;
  const auto wide = [](const std::string& text) {
    std::string all = "\xff\xfe";
    for (const char c : text) all += {c, '\0'};
    return all;
  };
  const auto refusal = [&](const char* file, const std::string& content) {
    const auto path = folder.write(file, content);
    return std::string(test::expect_error(ExitCode::kBadData, [&] { read_class_names(path); }).what());
  };
  EXPECT_TRUE(test::holds(refusal("names", wide("cat\r\ndog\r\n")), "is text in UTF-16"));
  EXPECT_TRUE(test::holds(refusal("names", "R\xf6hre\nR\xe4hre\n"), "iconv -f WINDOWS-1252"));
  EXPECT_TRUE(test::holds(refusal("names", "caf\xe9\n"), "iconv -f WINDOWS-1252"));
  EXPECT_TRUE(test::holds(refusal("data.yaml", "names: [R\xf6hre]\n"), "is no text in UTF-8"));
  EXPECT_EQ(read_class_names(folder.write("data.yaml", "# R\xf6hren\nnames: [cat, dog]  # f\xfcr alle\n")),
            (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(read_class_names(folder.write("wide.yaml", wide("names: [cat, dog]\n"))),
            (std::vector<std::string>{"cat", "dog"}));
  folder.write("train.txt", wide("a.png\r\n"));
  const auto description = folder.write("data.yaml", "train: train.txt\nnames: [cat]\n");
  const Error error =
      test::expect_error(ExitCode::kBadData, [&] { find_described_images(description, YoloSplit::kTrain); });
  EXPECT_TRUE(test::holds(error.what(), "train.txt: is text in UTF-16")) << error.what();
}

TEST(Yolo, ValidationHasTheClassesOfTheTrainingData) {
  const TemporaryFolder folder;
  add(folder, "a", {10, 10, {2, 2, 4, 4}}, 1);
  folder.write("names", "cat\ndog\n");
  folder.write("other", "dog\ncat\n");
  const Keys folders = {{"images", (folder / "images").string()}, {"labels", (folder / "labels").string()}};
  const auto with = [&](const char* key, const Value& value) {
    Keys keys = folders;
    keys[key] = value;
    return Choice{"yolo", keys};
  };
  const Choice training = with("names", (folder / "names").string());
  EXPECT_EQ(make_dataset({.choice = {"yolo", folders}, .training = &training})->info().classes, 2);
  for (const Choice& other : {with("classes", int64_t{3}), with("names", (folder / "other").string())}) {
    const Error error = test::expect_error(ExitCode::kBadRecipe,
                                           [&] { make_dataset({.choice = other, .training = &training}); });
    EXPECT_TRUE(test::holds(error.problem(), "2 (cat, dog)"));
  }
}

// Two images and their labels, where detectors' descriptions put them.
struct DescribedSet {
  TemporaryFolder folder;

  DescribedSet() {
    for (const char* const part : {"train", "val"}) {
      const std::string inner = std::string(part) + (*part == 't' ? "/deep/" : "/");
      folder.write("set/images/" + inner + "a.png", Scene{10, 10, {2, 2, 4, 4}}.image());
      folder.write("set/labels/" + inner + "a.txt", Scene{10, 10, {2, 2, 4, 4}}.label(1));
    }
  }
  Choice described(const std::string& yaml, const std::string& split = "train",
                   const std::string& name = "set/data.yaml") const {
    return {"yolo",
            {{"file", folder.write(name, yaml).string()},
             {"split", split},
             {"size", std::vector<int64_t>{20, 20}}}};
  }
};

TEST(Yolo, DescriptionsNameTheImagesOfEachPart) {
  const DescribedSet set;
  const std::string names = "names: {0: cat, 1: dog}\n",
                    all = "train: images/train\nval: images/val\n" + names;
  const auto boxes = [](const std::unique_ptr<Dataset>& data) {
    return test::samples(*data, {0}).targets[0][0][0].item<float>();
  };
  const std::vector<std::pair<std::string, std::string>> ways = {
      {all, "set/data.yaml"},
      {"path: set\n" + all, "data.yaml"},
      {"path: /content/set\n" + all, "set/data.yaml"},
      {"path: ../set # beside\n" + all, "set/data.yaml"},
      {"train: ../images/train\nval: ../images/val\n" + names, "set/data.yaml"},
      {"train: images\\train\nval: .\\images\\val\n" + names, "set/data.yaml"},
      {"train: [images/train, images/val]\nvalid: images/val\n" + names, "set/data.yaml"}};
  for (const auto& [yaml, name] : ways) {
    const Choice training = set.described(yaml, "train", name);
    const auto train = make_dataset({training});
    const auto validation = make_dataset({.choice = set.described(yaml, "val", name), .training = &training});
    EXPECT_EQ(boxes(train), 1) << yaml;
    EXPECT_EQ(boxes(validation), 1) << yaml;
    EXPECT_EQ(validation->size(), 1) << yaml;
    EXPECT_EQ(train->info().classes, 2);
  }
}

TEST(Yolo, DescriptionsNameListsOfImages) {
  const DescribedSet set;
  set.folder.write("set/train.txt", "./images/train/deep/a.png\r\n\nimages/val/a.png\n");
  const std::string yaml = "train: train.txt\nval: images/val\nnc: 2\n";
  EXPECT_EQ(make_dataset({set.described(yaml)})->size(), 2);
  set.folder.write("set/train.txt", "./images/train/deep/a.png\nimages/none.png\n");
  const Error error =
      test::expect_error(ExitCode::kMissingFile, [&] { make_dataset({set.described(yaml)}); });
  EXPECT_TRUE(test::holds(error.where(), "train.txt:2")) << error.where();
}

TEST(Yolo, DescriptionsThatCannotServeSayWhere) {
  const DescribedSet set;
  const std::string names = "names: [cat, dog]\n";
  for (const auto& [yaml, code, said] :
       {std::tuple{"val: images/val\n" + names, ExitCode::kBadData, "names no images for train"},
        {"train:\n" + names, ExitCode::kBadData, "data.yaml:1:1"},
        {"train: images/none\n" + names, ExitCode::kMissingFile, "data.yaml:1:8"},
        {"train: []\n" + names, ExitCode::kBadData, "is an empty list"},
        {"train: {a: b}\n" + names, ExitCode::kBadData, "is no path"},
        {"train: images\\none\n" + names, ExitCode::kMissingFile, "there is no"},
        {std::string("- images\n"), ExitCode::kBadData, "no description"}}) {
    const Error error = test::expect_error(code, [&] { make_dataset({set.described(yaml)}); });
    EXPECT_TRUE(test::holds(error.what(), said)) << error.what();
  }
  Choice unsaid = set.described("train: images/train\n" + names);
  unsaid.parameters.erase("split");
  const Error error = test::expect_error(ExitCode::kBadRecipe, [&] { make_dataset({unsaid}); });
  EXPECT_TRUE(test::holds(error.what(), "train, val or test"));
  for (const char* const word : {"valid", "validation"})
    EXPECT_EQ(make_dataset({set.described("train: images/train\nval: images/val\n" + names, word)})->size(),
              1);
  const Error unknown = test::expect_error(ExitCode::kBadRecipe, [&] {
    make_dataset({set.described("train: images/train\n" + names, "training")});
  });
  EXPECT_TRUE(test::holds(unknown.what(), "is \"training\"")) << unknown.what();
  const Choice both = {"yolo", {{"file", std::string("a.yaml")}, {"images", std::string("b")}}};
  test::expect_error(ExitCode::kBadRecipe, [&] { make_dataset({both}); });
}

TEST(Yolo, LabelsLieInAFolderOfTheirNameOrBesideTheirImages) {
  EXPECT_EQ(label_beside("/d/images/set/images/train/a.b.jpg"), "/d/images/set/labels/train/a.b.txt");
  EXPECT_EQ(label_beside("d/pictures/images.jpg"), "d/pictures/images.txt");
  const TemporaryFolder folder;
  const Scene scene{10, 10, {2, 2, 4, 4}};
  folder.write("images/set/a.png", scene.image());
  folder.write("images/set/a.txt", scene.label(2));
  folder.write("images/set/inner/b.png", scene.image());
  const auto data = make_dataset({Choice{"yolo",
                                         {{"images", (folder / "images/set").string()},
                                          {"classes", int64_t{3}},
                                          {"size", std::vector<int64_t>{20, 20}}}}});
  EXPECT_EQ(data->size(), 2);
  EXPECT_EQ(test::samples(*data, {0, 1}).targets.select(2, 0).flatten()[0].item<float>(), 2);
}

TEST(Yolo, EachLabelFileIsFoundByItself) {
  EXPECT_EQ(label_beside("VOC2007/JPEGImages/a.jpg"), "VOC2007/labels/a.txt");
  const TemporaryFolder folder;
  const Scene scene{10, 10, {2, 2, 4, 4}};
  for (const char* const image : {"set/images/one/a.png", "set/images/one/b.png", "set/images/two/c.png"})
    folder.write(image, scene.image());
  folder.write("set/labels/one/a.txt", scene.label(0));
  folder.write("set/labels/one/b.TXT", scene.label(1));
  folder.write("set/images/two/c.txt", scene.label(2));
  const auto data = make_dataset({Choice{"yolo",
                                         {{"images", (folder / "set/images").string()},
                                          {"classes", int64_t{3}},
                                          {"size", std::vector<int64_t>{20, 20}}}}});
  EXPECT_TRUE(
      test::all_samples(*data).targets.select(2, 0).flatten().equal(torch::arange(3).to(torch::kFloat32)));
}

TEST(Yolo, CaptionsBesideImagesAreNoLabels) {
  const TemporaryFolder folder;
  const Scene scene{10, 10, {2, 2, 4, 4}};
  for (const char* const image : {"set/images/a.png", "set/images/b.png"}) folder.write(image, scene.image());
  folder.write("set/labels/a.txt", scene.label(1));
  folder.write("set/images/b.txt", "A white box on black\n");
  std::unique_ptr<Dataset> data;
  const std::string said = said_by([&] {
    data = make_dataset({Choice{"yolo",
                                {{"images", (folder / "set/images").string()},
                                 {"classes", int64_t{3}},
                                 {"size", std::vector<int64_t>{20, 20}}}}});
  });
  EXPECT_TRUE(test::holds(said, "1 texts beside images do not begin with a class's number")) << said;
  EXPECT_EQ(test::samples(*data, {0, 1}).targets[1].select(1, 0).max().item<float>(), -1);
}

TEST(Yolo, TwoClassesOfOneNameAreDoubted) {
  const TemporaryFolder folder;
  add(folder, "a", {10, 10, {2, 2, 4, 4}}, 1);
  folder.write("names", "cat\nCat\ndog\n");
  const Choice place = choice(folder, {{"names", (folder / "names").string()}});
  const auto data = make_dataset({place});
  const DataLook look = look_at({place}, *data, nullptr, {.depth = LookDepth::kStart});
  ASSERT_EQ(look.doubts.size(), 1U);
  EXPECT_EQ(look.doubts[0].kind, "classes of one name");
  EXPECT_EQ(look.doubts[0].places, (std::vector<std::string>{"0: cat, and 1: Cat"}));
}

TEST(Yolo, ClassesThatTheTrainingDataHaveNoBoxOfAreDoubted) {
  const TemporaryFolder train, other;
  for (const char* const name : {"a", "b"}) {
    add(train, name, {10, 10, {2, 2, 4, 4}}, 1);
    add(other, name + std::string("2"), {12, 10, {2, 2, 4, 4}}, name[0] == 'a' ? 1 : 2);
  }
  const Choice training = choice(train), validation = choice(other);
  const DatasetPlace place{.choice = validation, .training = &training};
  const auto trained_on = make_dataset({training}), data = make_dataset(place);
  const DataLook look = look_at(place, *data, trained_on.get(), {.depth = LookDepth::kStart});
  ASSERT_EQ(look.doubts.size(), 1U);
  EXPECT_EQ(look.doubts[0].kind, "classes of the validation data that the training data lack");
  EXPECT_EQ(look.doubts[0].places, (std::vector<std::string>{"class 2: 1 boxes"}));
}

TEST(Yolo, ImagesThatAreNamedTwiceAreToldAsThat) {
  const DescribedSet set;
  set.folder.write("set/train.txt", "images/train/deep/a.png\nimages/val/a.png\n./images/val/a.png\n");
  const std::string said = said_by([&] { make_dataset({set.described("train: train.txt\nnc: 2\n")}); });
  EXPECT_TRUE(test::holds(said, "1 images are named more than once, and count as often")) << said;
  EXPECT_FALSE(test::holds(said, "the label file of another")) << said;
}

// As an exported model takes them whose loss is its own: it knows one shape of targets.
TEST(Yolo, TargetsHaveAsManyRowsAsTheRecipeSaysInEvaluationsToo) {
  const TemporaryFolder folder;
  for (const char* const name : {"a", "b"}) add(folder, name, {10, 10, {2, 2, 4, 4}}, 1);
  folder.write("labels/b.txt", "2 0.5 0.5 0.3 0.3\n0 0.2 0.2 0.3 0.3\n");
  const Choice three = choice(folder, {{"boxes", int64_t{3}}});
  for (const Choice* const training : {static_cast<const Choice*>(nullptr), &three}) {
    const torch::Tensor targets =
        test::samples(*make_dataset({.choice = three, .training = training}), {0}).targets;
    ASSERT_EQ(targets.sizes(), (std::vector<int64_t>{1, 3, 5}));
    EXPECT_TRUE(targets[0].select(1, 0).equal(torch::tensor({1.f, -1.f, -1.f})));
  }
  Error error = test::expect_error(ExitCode::kBadData, [&] {
    make_dataset({choice(folder, {{"boxes", int64_t{1}}})});
  });
  EXPECT_TRUE(test::holds(error.what(), "a sample of 2 boxes")) << error.what();
  folder.write("data.yaml", "train: list.txt\nnames: [a, b, c]\n");
  folder.write("list.txt", "images/a.png\nimages/b.png\n");
  const Keys listed = {{"file", (folder / "data.yaml").string()},
                       {"split", std::string("train")},
                       {"size", std::vector<int64_t>{20, 20}},
                       {"boxes", int64_t{1}}};
  error = test::expect_error(ExitCode::kBadData, [&] { make_dataset({Choice{"yolo", listed}}); });
  EXPECT_TRUE(error.where().ends_with("images/b.png")) << error.what();
  error = test::expect_error(ExitCode::kBadData,
                             [&] { make_dataset({.choice = three, .augment = {.mosaic = 0.5}}); });
  EXPECT_TRUE(test::holds(error.what(), "set boxes: 8")) << error.what();
}

TEST(Yolo, OtherDataReadLongerLinesAsTheTrainingDataDo) {
  const TemporaryFolder folder;
  DataRecipe data;
  data.train = choice(folder, {{"longer_lines", std::string("polygon")}});
  data.validation = choice(folder);
  complete_other_data(data);
  EXPECT_EQ(std::get<std::string>(data.validation->parameters.at("longer_lines")), "polygon");
}

// Corners are all numbers from 0 to 1, too; as centres and sizes they leave their images.
TEST(Yolo, LinesOfCornersAreRefused) {
  const TemporaryFolder folder;
  for (int i = 0; i < 8; ++i) {
    const std::string name = std::string(1, static_cast<char>('a' + i));
    add(folder, name, {10, 10, {2, 2, 4, 4}}, 1);
    folder.write("labels/" + name + ".txt", i % 2 == 0 ? "1 0.6 0.5 0.9 0.8\n" : "1 0.1 0.2 0.4 0.5\n");
  }
  const Error error = test::expect_error(ExitCode::kBadData, [&] { make_dataset({choice(folder)}); });
  EXPECT_TRUE(test::holds(error.problem(), "a.txt: 0.9 × 0.8")) << error.what();
  EXPECT_TRUE(error.problem().starts_with("1 fault: ")) << "of all files together, and of none alone";
  EXPECT_TRUE(test::holds(error.what(), "class cx cy w h")) << error.what();
  // Large boxes that stay inside are centres and sizes.
  for (int i = 0; i < 8; ++i)
    folder.write("labels/" + std::string(1, static_cast<char>('a' + i)) + ".txt", "1 0.5 0.5 0.9 0.8\n");
  EXPECT_NO_THROW(make_dataset({choice(folder)}));
}

TEST(Yolo, ALookCountsBoxesAndDoubtsOddOnes) {
  const TemporaryFolder folder;
  add(folder, "a", {10, 10, {2, 2, 4, 4}}, 1);
  add(folder, "b", {10, 10, {2, 2, 4, 4}}, 2);
  folder.write("labels/b.txt", "2 0.5 0.5 0.3 0.3\n2 0.5 0.5 0.05 0.3\n1 0.1 0.5 0.9 0.1\n");
  folder.write("labels/lone.txt", "");
  folder.write("images/a.png", "GIF89a");
  const Choice place = choice(folder);
  std::unique_ptr<Dataset> data;
  EXPECT_TRUE(test::holds(said_by([&] { data = make_dataset({place}); }), "1 label files without an image"));
  const DataLook look = look_at({place}, *data, nullptr, {.depth = LookDepth::kWhole, .threads = 2});
  EXPECT_EQ(look.bars.at(0).counts, (std::vector<int64_t>{0, 2, 2}));
  std::string kinds;
  for (const Doubt& doubt : look.doubts) kinds += doubt.kind + "|";
  for (const char* const kind : {"images that cannot be read", "less than two pixels", "far outside"})
    EXPECT_TRUE(test::holds(kinds, kind));
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
