#include <nlohmann/json.hpp>

#include "autotrain/log.h"
#include "data/coco_file.h"
#include "data/coco_json.h"
#include "data/datasets.h"
#include "support/images.h"
#include "support/samples.h"
#include "support/support.h"

namespace autotrain {
namespace {

using Json = nlohmann::json;
using test::TemporaryFolder;

// Two images, 40 × 20 and 20 × 20, and categories with a gap between their ids, not in order.
Json two_images() {
  return {{"info", {{"year", 2017}, {"nested", {{"bbox", {9, 9, 9, 9}}}}}},
          {"images",
           {{{"id", 71}, {"file_name", "wide.png"}, {"width", 40}, {"height", 20}},
            {{"id", 5}, {"file_name", "more/square.png"}, {"width", 20}, {"height", 20}}}},
          {"annotations",
           {{{"id", 1},
             {"image_id", 5},
             {"category_id", 90},
             {"bbox", {5, 5, 10, 5}},
             {"area", 33.5},
             {"iscrowd", 0},
             {"segmentation", {{1, 2, 3, 4, 5, 6}}}},
            {{"id", 2},
             {"image_id", 71},
             {"category_id", 3},
             {"bbox", {24, 4, 12, 8}},
             {"area", 96},
             {"iscrowd", 0}},
            {{"id", 3},
             {"image_id", 5},
             {"category_id", 3},
             {"bbox", {0, 0, 20, 20}},
             {"iscrowd", 1},
             {"segmentation", {{"counts", {1, 2}}, {"size", {20, 20}}}}}}},
          {"categories", {{{"id", 90}, {"name", "dog"}}, {{"id", 3}, {"name", "cat"}}}}};
}

struct CocoFolder {
  TemporaryFolder folder;

  explicit CocoFolder(const Json& json = two_images()) {
    folder.write("images/wide.png", test::png_file(test::plain_image(20, 40, {200, 200, 200})));
    folder.write("images/more/square.png", test::png_file(test::plain_image(20, 20, {200, 200, 200})));
    write(json);
  }
  void write(const Json& json) { folder.write("a.json", json.dump()); }
  std::string file() const { return (folder / "a.json").string(); }

  Choice choice() const {
    return {"coco",
            {{"images", (folder / "images").string()},
             {"annotations", file()},
             {"size", std::vector<int64_t>{20, 20}}}};
  }
};

CocoReading reading_of(const CocoFolder& folder) {
  return {.images = folder.folder / "images", .size = {20, 20}, .keeps_crowds = true};
}

TEST(Coco, BoxesComeToTheirImagesAndClassesToNumbersWithoutGaps) {
  const CocoFolder folder;
  const CocoAnnotations all = read_coco(folder.file(), reading_of(folder));
  EXPECT_EQ(all.classes, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(all.images[0], "wide.png");
  ASSERT_EQ(all.boxes.boxes.of(0).size(), 1u);
  EXPECT_EQ(all.boxes.boxes.of(0)[0],
            (LabelledBox{
                .category = 0, .centre_x = 0.75, .centre_y = 0.4, .width = 0.3, .height = 0.4, .area = 96}));
  ASSERT_EQ(all.boxes.boxes.of(1).size(), 2u);
  EXPECT_EQ(all.boxes.boxes.of(1)[0].category, 1);
  EXPECT_EQ(all.boxes.boxes.of(1)[0].area, 33.5);
  EXPECT_TRUE(all.boxes.boxes.of(1)[1].crowd);
  EXPECT_EQ(all.crowds, 1);
}

TEST(Coco, TrainingLeavesCrowdsOutAndEvaluationsKeepThemWithAreas) {
  const CocoFolder folder;
  const Choice choice = folder.choice();
  const auto train = make_dataset({choice});
  const Batch learned = test::samples(*train, {0, 1});
  ASSERT_EQ(learned.targets.sizes(), (std::vector<int64_t>{2, 1, 5}));
  const auto validation = make_dataset({.choice = choice, .training = &choice});
  const Batch measured = test::samples(*validation, {0, 1});
  ASSERT_EQ(measured.targets.sizes(), (std::vector<int64_t>{2, 2, 12}));
  // The wide image lies in the middle of the sample, halved: a pixel of the sample is four of the file.
  const torch::Tensor wide =
      torch::tensor({0.0, 0.75, 0.25 + 0.2, 0.3, 0.2, 0.0, 96.0, 4.0, 0.0, 0.25, 1.0, 0.75}, torch::kFloat32);
  EXPECT_TRUE(measured.targets[0][0].allclose(wide, 1e-5, 1e-5)) << measured.targets;
  EXPECT_EQ(measured.targets[0][1][0].item<float>(), -1);
  EXPECT_EQ(measured.targets[1][1][5].item<float>(), 1) << "a crowd";
  EXPECT_EQ(measured.targets[1][1][6].item<float>(), 400) << "whose area nobody said";
}

TEST(Coco, AClassThatOtherDataHaveNotHasItsIdOfTheTrainingData) {
  const CocoFolder training;
  Json json = two_images();
  json["categories"] = Json::array({{{"id", 7}, {"name", "dog"}}});
  json["annotations"] = Json::array({{{"image_id", 5}, {"category_id", 7}, {"bbox", {5, 5, 10, 5}}}});
  const CocoFolder validation(json);
  CocoReading reading = reading_of(validation);
  reading.classes = read_coco_classes(training.file());
  EXPECT_EQ(read_coco(validation.file(), reading).category_ids, (std::vector<int64_t>{3, 7}));
  json["categories"].push_back({{"id", 3}, {"name", "cow"}});
  validation.folder.write("a.json", json.dump());
  EXPECT_EQ(read_coco(validation.file(), reading).category_ids, (std::vector<int64_t>{kNoCategoryId, 7}))
      << "3 is another one here";
}

TEST(Coco, OtherDataGoByTheNamesOfCategories) {
  const CocoFolder training;
  Json json = two_images();
  json["categories"] = Json::array({{{"id", 1}, {"name", "dog"}}});
  json["annotations"] = Json::array({{{"image_id", 5}, {"category_id", 1}, {"bbox", {5, 5, 10, 5}}}});
  const CocoFolder validation(json);
  const Choice train = training.choice();
  const auto data = make_dataset({.choice = validation.choice(), .training = &train});
  EXPECT_EQ(data->info().classes, 2);
  EXPECT_EQ(test::samples(*data, {1}).targets[0][0][0].item<float>(), 1);
  json["categories"][0]["name"] = "cow";
  validation.folder.write("a.json", json.dump());
  const Error error = test::expect_error(
      ExitCode::kBadData, [&] { make_dataset({.choice = validation.choice(), .training = &train}); });
  EXPECT_TRUE(test::holds(error.problem(), "the training data have not: cow; these have cat, dog"));
}

// What one change makes of the file, and what is then said.
struct BadFile {
  const char* name;
  std::function<void(Json&)> change;
  const char* said;
};

const std::vector<BadFile>& bad_files() {
  static const std::vector<BadFile> files = {
      {"no image", [](Json& j) { j["annotations"][0]["image_id"] = 6; },
       "annotations of images that there are not (1)"},
      {"no category", [](Json& j) { j["annotations"][0]["category_id"] = 91; },
       "annotation 1 (id 1): its category_id is 91"},
      {"three numbers",
       [](Json& j) {
         j["annotations"][1]["bbox"] = {1, 2, 3};
       },
       "its bbox has 3 numbers"},
      {"no box", [](Json& j) { j["annotations"][1].erase("bbox"); }, "annotations without a bbox (1)"},
      {"a width below 0",
       [](Json& j) {
         j["annotations"][1]["bbox"] = {1, 2, -3, 5};
       },
       "boxes of a width or height below 0 (1)"},
      {"empty boxes",
       [](Json& j) {
         for (Json& each : j["annotations"]) each["bbox"] = {0, 0, 0, 0};
       },
       "boxes most of which have no area"},
      {"far away",
       [](Json& j) {
         j["annotations"][1]["bbox"] = {50, 2, 5, 5};
       },
       "boxes outside of their images (1)"},
      {"doubled image", [](Json& j) { j["images"][0]["id"] = 5; }, "gives the id 5 to two images"},
      {"doubled category", [](Json& j) { j["categories"][0]["id"] = 3; }, "gives the id 3 to categories"},
      {"one name twice", [](Json& j) { j["categories"][0]["name"] = "cat"; }, "two categories named \"cat\""},
      {"no categories", [](Json& j) { j.erase("categories"); }, "has no categories"},
      {"no annotations", [](Json& j) { j["annotations"] = Json::array(); }, "has no annotations"},
      {"results", [](Json& j) { j = j["annotations"]; }, "is a list, as results of a detector are"},
      {"nameless image", [](Json& j) { j["images"][1].erase("file_name"); }, "image 2 has no file_name"},
      {"image twice", [](Json& j) { j["images"][1]["file_name"] = "./wide.png"; }, "under two ids"},
      {"text as id", [](Json& j) { j["images"][1]["id"] = "IMG_1"; },
       "image 2: \"IMG_1\" is no whole number"},
      {"all crowds",
       [](Json& j) {
         for (Json& each : j["annotations"]) each["iscrowd"] = 1;
       },
       "set iscrowd to 0"},
      {"unbound", [](Json& j) { j["annotations"][2].erase("image_id"); }, "annotation 3 has no image_id"}};
  return files;
}

TEST(Coco, WhatIsWrongIsNamedByTheAnnotation) {
  for (const BadFile& bad : bad_files()) {
    Json json = two_images();
    bad.change(json);
    const CocoFolder folder(json);
    const Error error = test::expect_error(ExitCode::kBadData, [&] { make_dataset({folder.choice()}); });
    EXPECT_TRUE(test::holds(error.what(), bad.said)) << bad.name << ": " << error.what();
  }
}

// Two of COCO's own training boxes are such.
TEST(Coco, ABoxWithoutAnAreaIsLeftOutAndTold) {
  Json json = two_images();
  json["annotations"].push_back(
      {{"id", 918}, {"image_id", 71}, {"category_id", 3}, {"bbox", {10.65, 8.33, 1.03, 0.0}}, {"area", 0.0}});
  const CocoFolder folder(json), without;
  const CocoAnnotations all = read_coco(folder.file(), reading_of(folder));
  EXPECT_EQ(all.boxes.boxes.of(0).size(), 1u);
  EXPECT_TRUE(all.boxes.faulty.empty());
  const std::string told = LabelSummary::words_of(all.boxes.summary.doubts);
  EXPECT_TRUE(test::holds(told, "boxes without an area, which are left out (1)")) << told;
  EXPECT_TRUE(test::holds(told, "annotation 4 (id 918)")) << told;
  EXPECT_TRUE(test::all_samples(*make_dataset({folder.choice()}))
                  .targets.equal(test::all_samples(*make_dataset({without.choice()})).targets));
}

TEST(Coco, AnIdBeyondWhatNumbersHoldIsToldAsOne) {
  Json json = two_images();
  json["images"][0]["id"] = (uint64_t{1} << 63) + 1;
  const CocoFolder folder(json);
  const Error error = test::expect_error(ExitCode::kBadData, [&] { make_dataset({folder.choice()}); });
  EXPECT_TRUE(test::holds(error.what(), "9223372036854775809")) << error.what();
}

TEST(Coco, FilesThatAreNoJsonSayWhere) {
  const CocoFolder folder;
  for (const auto& [content, said] : {std::pair{"{\"images\": [\n}", "is no JSON: at line 2, column 1"},
                                      {"", "is no JSON"},
                                      {"{\"images\": [{\"id\": NaN}]}", "is no JSON: at line 1"}}) {
    folder.folder.write("a.json", content);
    const Error error = test::expect_error(ExitCode::kBadData, [&] { read_coco_json(folder.file()); });
    EXPECT_TRUE(test::holds(error.what(), said)) << error.what();
  }
  test::expect_error(ExitCode::kMissingFile, [&] { read_coco_json(folder.folder / "none.json"); });
}

// Eight boxes in one image, made of numbers a, b, c, d.
Json eight_boxes(const std::function<std::array<double, 4>(int)>& box) {
  Json json = two_images();
  json["annotations"] = Json::array();
  for (int i = 0; i < 8; ++i)
    json["annotations"].push_back({{"id", i}, {"image_id", 71}, {"category_id", 3}, {"bbox", box(i)}});
  return json;
}

TEST(Coco, BoxesOfAnotherKindAreRefusedByName) {
  const CocoFolder parts(eight_boxes([](int i) { return std::array{0.1, 0.1, 0.1 + 0.01 * i, 0.5}; }));
  Error error = test::expect_error(ExitCode::kBadData, [&] { make_dataset({parts.choice()}); });
  EXPECT_TRUE(test::holds(error.what(), "write bbox in pixels")) << error.what();
  const CocoFolder corners(eight_boxes([](int i) { return std::array{20.0, 8.0, 30.0 + i, 16.0}; }));
  error = test::expect_error(ExitCode::kBadData, [&] { make_dataset({corners.choice()}); });
  EXPECT_TRUE(test::holds(error.what(), "[x1, y1, x2, y2]")) << error.what();
  const CocoFolder large(eight_boxes([](int i) { return std::array{1.0, 1.0, 20.0 + i, 16.0}; }));
  EXPECT_NO_THROW(make_dataset({large.choice()}));
}

// The kind of what is found at a start and would end the run.
std::string what_ends_a_run(const Choice& choice) {
  const DataLook look = look_at({choice}, *make_dataset({choice}), nullptr, {.depth = LookDepth::kStart});
  for (const Doubt& doubt : look.doubts)
    if (doubt.stops) return doubt.kind;
  return "";
}

TEST(Coco, ImagesThatAreNotThereOrOfAnotherShapeEndTheRun) {
  Json json = two_images();
  json["images"][0]["file_name"] = "gone.png";
  const CocoFolder gone(json);
  Error error = test::expect_error(ExitCode::kMissingFile, [&] { make_dataset({gone.choice()}); });
  EXPECT_TRUE(test::holds(error.what(), "1 of the 2 images"));
  json = two_images();
  std::swap(json["images"][0]["width"], json["images"][0]["height"]);
  json["annotations"][1]["bbox"] = {4, 4, 8, 8};
  const CocoFolder turned(json);
  const auto data = make_dataset({turned.choice()});
  error = test::expect_error(ExitCode::kBadData, [&] { test::samples(*data, {0}); });
  EXPECT_TRUE(test::holds(error.what(), "is 40 × 20, and its annotations say 20 × 40")) << error.what();
  EXPECT_NO_THROW(test::samples(*data, {1}));
  EXPECT_EQ(what_ends_a_run(turned.choice()), "images of another shape than their annotations say");
}

// As phones store them: tools that do not turn them write the sizes and boxes of what is stored.
TEST(Coco, AnImageThatIsStoredTurnedIsAFaultWhereItsAnnotationsAreOfWhatIsStored) {
  const CocoFolder folder;
  folder.folder.write("images/wide.png",
                      test::with_orientation(test::png_file(test::plain_image(20, 40, {200, 200, 200})), 6));
  Choice choice = folder.choice();
  EXPECT_EQ(what_ends_a_run(choice), "images of another shape than their annotations say");
  choice.parameters["upright"] = false;
  EXPECT_EQ(what_ends_a_run(choice), "");
}

TEST(Coco, SizesThatNobodySaysAreThoseOfTheFiles) {
  Json json = two_images();
  json["images"][0].erase("width");
  const CocoFolder folder(json), whole;
  const torch::Tensor without = test::samples(*make_dataset({folder.choice()}), {0}).targets;
  EXPECT_TRUE(without.equal(test::samples(*make_dataset({whole.choice()}), {0}).targets));
}

TEST(Coco, FilesAreReadAsToolsWriteThem) {
  const CocoFolder plain;
  const torch::Tensor expected = test::all_samples(*make_dataset({plain.choice()})).targets;
  const std::vector<std::pair<const char*, std::function<void(Json&)>>> ways = {
      {"numbers as texts",
       [](Json& j) {
         j["images"][0]["id"] = "71";
         j["annotations"][1]["image_id"] = "71";
         j["annotations"][1]["bbox"] = {"24", "4.0", 12, 8};
       }},
      {"ids as reals", [](Json& j) { j["annotations"][1]["category_id"] = 3.0; }},
      {"paths of Windows", [](Json& j) { j["images"][1]["file_name"] = "more\\square.png"; }},
      {"a group among the categories",
       [](Json& j) {
         j["categories"].push_back({{"id", 0}, {"name", "dog"}, {"supercategory", "none"}});
       }},
      {"a group that categories name",
       [](Json& j) {
         j["categories"].push_back({{"id", 0}, {"name", "animals"}, {"supercategory", "none"}});
         j["categories"][0]["supercategory"] = "animals";
       }},
      {"truths", [](Json& j) { j["annotations"][2]["iscrowd"] = true; }}};
  for (const auto& [name, change] : ways) {
    Json json = two_images();
    change(json);
    const CocoFolder folder(json);
    const auto data = make_dataset({folder.choice()});
    EXPECT_TRUE(test::all_samples(*data).targets.equal(expected)) << name;
    EXPECT_EQ(data->info().classes, 2) << name;
  }
}

TEST(Coco, AreasStayThoseOfTheAnnotationsWhereFilesWereResizedSince) {
  CocoFolder folder;
  folder.folder.write("images/wide.png", test::png_file(test::plain_image(40, 80, {200, 200, 200})));
  const Choice choice = folder.choice();
  const auto data = make_dataset({.choice = choice, .training = &choice});
  const torch::Tensor box = test::samples(*data, {0}).targets[0][0];
  EXPECT_EQ(box[6].item<float>(), 96);
  EXPECT_NEAR(box[7].item<float>(), 4, 1e-3) << "16 pixels of the file are 4 of those that were annotated";
}

TEST(Coco, ABadBoxSkipsItsImageAlone) {
  Json json = two_images();
  json["annotations"][0]["bbox"] = {1, 2, 3};
  const CocoFolder folder(json);
  log::set_sink([](const log::Record&) {}, log::Level::kInfo);
  const auto data = make_dataset({.choice = folder.choice(), .skips_bad = true});
  log::set_sink(log::terminal_sink(), log::Level::kWarning);
  EXPECT_EQ(test::samples(*data, {0}).targets.size(1), 1);
  const Error error = test::expect_error(ExitCode::kBadData, [&] { test::samples(*data, {1}); });
  EXPECT_TRUE(test::holds(error.where(), "sample 1: ")) << error.where();
}

}  // namespace
}  // namespace autotrain
