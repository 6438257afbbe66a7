#include <sys/stat.h>
#include <unistd.h>

#include "autotrain/log.h"
#include "data/datasets.h"
#include "support/images.h"
#include "support/samples.h"
#include "support/support.h"

namespace autotrain {
namespace {

namespace fs = std::filesystem;
using test::TemporaryFolder;

using Keys = std::map<std::string, Value>;

Choice choice(const TemporaryFolder& folder, Keys keys = {}) {
  keys.insert({"root", folder.path().string()});
  keys.insert({"size", std::vector<int64_t>{4, 4}});
  return {"image_folder", std::move(keys)};
}

// Pixels in [0, 1] instead of normalised ones.
Keys raw(Keys keys = {}) {
  keys.insert({"mean", std::vector<double>{0, 0, 0}});
  keys.insert({"deviation", std::vector<double>{1, 1, 1}});
  return keys;
}

std::string png(int64_t height, int64_t width, const std::vector<uint8_t>& colour) {
  return test::png_file(test::plain_image(height, width, colour));
}

void fill(const TemporaryFolder& folder, const std::vector<std::string>& names) {
  for (const std::string& name : names) folder.write(name, png(5, 5, {10, 20, 30}));
}

TEST(ImageFolder, ClassesAndFilesAreSortedByName) {
  const TemporaryFolder folder;
  for (const auto& [name, level] : {std::pair{"dog/b.png", 3}, {"cat/z.PNG", 2}, {"cat/a.png", 1}}) {
    folder.write(name, png(6, 4, {static_cast<uint8_t>(level), 0, 0}));
  }
  folder.write("cat/notes.txt", "no image");
  folder.write(".hidden/x.png", "no class");
  const auto data = make_dataset({choice(folder, raw())});
  EXPECT_EQ(data->size(), 3);
  EXPECT_EQ(data->info().classes, 2);
  const Batch batch = test::samples(*data, {0, 1, 2});
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(std::lround(batch.inputs[i][0][2][1].item<float>() * 255), i + 1);
  EXPECT_TRUE(batch.targets.equal(torch::tensor({0, 0, 1})));
}

TEST(ImageFolder, PixelsAreNormalisedForEachChannel) {
  const TemporaryFolder folder;
  folder.write("a/x.png", png(5, 5, {255, 0, 51}));
  const Batch usual = test::samples(*make_dataset({choice(folder)}), {0});
  EXPECT_NEAR(usual.inputs[0][0][0][0].item<float>(), (1 - 0.485) / 0.229, 1e-5);
  EXPECT_NEAR(usual.inputs[0][2][0][0].item<float>(), (0.2 - 0.406) / 0.225, 1e-5);
  const Keys keys = {{"mean", std::vector<double>{0, 0.5, 0}}, {"deviation", std::vector<double>{1, 2, 0.1}}};
  const Batch typed = test::samples(*make_dataset({choice(folder, keys)}), {0});
  EXPECT_NEAR(typed.inputs[0][1][0][0].item<float>(), -0.25, 1e-5);
  EXPECT_NEAR(typed.inputs[0][2][0][0].item<float>(), 2, 1e-5);
  const Batch grey = test::samples(*make_dataset({choice(folder, {{"channels", int64_t{1}}})}), {0});
  EXPECT_EQ(grey.inputs.size(1), 1);
  EXPECT_NEAR(grey.inputs[0][0][0][0].item<float>(), (82 / 255.0 - 0.5) / 0.5, 1e-5)
      << "0.299 · 255 + 0.114 · 51";
}

// Left half black, right half white, twice as wide as high.
DecodedImage halves() {
  DecodedImage image = test::plain_image(8, 16, {0, 0, 0});
  for (size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = i / 3 % 16 < 8 ? 0 : 255;
  return image;
}

TEST(ImageFolder, ResizesInThreeWays) {
  const TemporaryFolder folder;
  folder.write("a/x.png", test::png_file(halves()));
  const auto row = [&](const char* resize, int64_t y) {
    const Batch batch =
        test::samples(*make_dataset({choice(folder, raw({{"resize", std::string(resize)}}))}), {0});
    return batch.inputs[0][0][y].round();
  };
  EXPECT_TRUE(row("stretch", 0).equal(torch::tensor({0.f, 0.f, 1.f, 1.f})));
  EXPECT_TRUE(row("crop", 0).equal(torch::tensor({0.f, 0.f, 1.f, 1.f})));
  EXPECT_TRUE(row("pad", 0).equal(torch::zeros(4))) << "black above the image";
  EXPECT_TRUE(row("pad", 1).equal(torch::tensor({0.f, 0.f, 1.f, 1.f})));
  EXPECT_TRUE(row("pad", 3).equal(torch::zeros(4)));
}

TEST(ImageFolder, FlipMirrorsHalfOfTheEpochs) {
  const TemporaryFolder folder;
  folder.write("a/x.png", test::png_file(halves()));
  const torch::Tensor plain = test::samples(*make_dataset({choice(folder)}), {0}).inputs[0];
  const auto data = make_dataset({choice(folder), {.flip = true}});
  int mirrored = 0;
  for (int64_t epoch = 0; epoch < 200; ++epoch) {
    const torch::Tensor image = test::samples(*data, {0}, {epoch}).inputs[0];
    const bool flipped = image.equal(plain.flip(2));
    EXPECT_TRUE(flipped || image.equal(plain));
    mirrored += flipped ? 1 : 0;
  }
  EXPECT_NEAR(mirrored, 100, 30);
}

TEST(ImageFolder, AugmentationDependsOnSampleAndEpochOnly) {
  const TemporaryFolder folder;
  folder.write("a/x.jpg", test::jpeg_file(test::gradient_image(40, 60, 3)));
  folder.write("a/y.png", test::png_file(test::gradient_image(30, 20, 3)));
  AugmentRecipe augment{.flip = true, .random_resized_crop = AreaShare{}, .brightness = 0.4, .contrast = 0.4};
  augment.saturation = 0.4, augment.hue = 0.1;
  const auto data = make_dataset({choice(folder), augment});
  const Batch together = test::samples(*data, {0, 1, 0}, {5, 5, 6});
  EXPECT_TRUE(together.inputs[0].equal(test::samples(*data, {0}, {5}).inputs[0]));
  EXPECT_TRUE(together.inputs[1].equal(test::samples(*data, {1}, {5}).inputs[0]));
  EXPECT_TRUE(together.inputs[2].equal(test::samples(*data, {0}, {6}).inputs[0]));
  EXPECT_FALSE(together.inputs[2].equal(together.inputs[0]));
}

TEST(ImageFolder, SplitsAreDisjointCompleteAndStable) {
  const TemporaryFolder folder;
  for (int i = 0; i < 60; ++i) {
    folder.write("a/" + std::to_string(100 + i) + ".png", png(4, 4, {static_cast<uint8_t>(i), 0, 0}));
  }
  const auto levels = [&](const char* split) {
    const auto data =
        make_dataset({choice(folder, raw({{"split", std::string(split)}, {"validation_share", 0.3}}))});
    std::set<int64_t> found;
    for (int64_t i = 0; i < data->size(); ++i) {
      found.insert(std::llround(test::samples(*data, {i}).inputs[0][0][0][0].item<float>() * 255));
    }
    return found;
  };
  const std::set<int64_t> train = levels("train"), validation = levels("validation");
  EXPECT_EQ(train.size() + validation.size(), 60u);
  EXPECT_NEAR(static_cast<double>(validation.size()), 18, 9);
  for (const int64_t level : validation) EXPECT_FALSE(train.contains(level));
  fs::remove(folder / "a/100.png");
  const std::set<int64_t> rest = levels("train");
  for (const int64_t level : train) EXPECT_TRUE(level == 0 || rest.contains(level));
}

TEST(ImageFolder, ALimitTakesFromEveryClass) {
  const TemporaryFolder folder;
  fill(folder, {"a/1.png", "a/2.png", "b/1.png", "b/2.png"});
  const auto data = make_dataset({choice(folder, {{"limit", int64_t{2}}})});
  ASSERT_EQ(data->size(), 2);
  EXPECT_TRUE(test::samples(*data, {0, 1}).targets.equal(torch::tensor({0, 1})));
}

TEST(ImageFolder, ClassNumbersCanComeFromAnotherFolder) {
  const TemporaryFolder train, validation;
  fill(train, {"a/1.png", "b/1.png", "c/1.png"});
  fill(validation, {"c/1.png"});
  const Keys keys = {{"classes_from", train.path().string()}};
  const auto data = make_dataset({choice(validation, keys)});
  EXPECT_EQ(data->info().classes, 3);
  EXPECT_EQ(test::samples(*data, {0}).targets[0].item<int64_t>(), 2);
  fill(validation, {"d/1.png"});
  const Error error =
      test::expect_error(ExitCode::kBadData, [&] { make_dataset({choice(validation, keys)}); });
  EXPECT_TRUE(test::holds(error.what(), "d: is no class of classes_from, which has a, b, c"));
}

std::string said_by(const std::function<void()>& action, log::Level least = log::Level::kInfo) {
  std::string said;
  log::set_sink([&](const log::Record& record) { said += std::string(record.text) + "\n"; }, least);
  action();
  log::set_sink(log::terminal_sink(), log::Level::kWarning);
  return said;
}

TEST(ImageFolder, ValidationNumbersItsClassesAsTheTrainingDataDo) {
  const TemporaryFolder train, validation;
  fill(train, {"a/1.png", "b/1.png", "c/1.png"});
  fill(validation, {"b/1.png", "c/1.png"});
  const Choice training = choice(train);
  const auto make = [&](Keys keys = {}) {
    return make_dataset({.choice = choice(validation, std::move(keys)), .training = &training});
  };
  std::unique_ptr<Dataset> data;
  const std::string said = said_by([&] { data = make(); });
  EXPECT_EQ(data->info().classes, 3);
  EXPECT_TRUE(test::all_samples(*data).targets.equal(torch::tensor({1, 2})));
  EXPECT_TRUE(test::holds(said, "none of class a"));
  // Where the training data's numbers are those of a third folder, so are these.
  const TemporaryFolder all;
  fill(all, {"0/1.png", "a/1.png", "b/1.png", "c/1.png"});
  const Choice from_all = choice(train, {{"classes_from", all.path().string()}});
  data = make_dataset({.choice = choice(validation), .training = &from_all});
  EXPECT_TRUE(test::all_samples(*data).targets.equal(torch::tensor({2, 3})));
  // Numbers of its own would be others.
  Error error = test::expect_error(ExitCode::kBadData, [&] {
    make({{"classes_from", validation.path().string()}});
  });
  EXPECT_TRUE(test::holds(error.what(), "a: is no class of " + validation.path().string()));
  fill(validation, {"d/1.png"});
  error = test::expect_error(ExitCode::kBadData, [&] { make(); });
  EXPECT_TRUE(test::holds(error.what(), "d: is no class of the training data, which has a, b, c"));
}

TEST(ImageFolder, AClassThatIsWrittenAsMacsDoIsRefusedByThatName) {
  const TemporaryFolder train, validation;
  fill(train, {"b/1.png", "\u00e9/1.png"});
  fill(validation, {"e\u0301/1.png"});
  const Choice training = choice(train);
  const Error error = test::expect_error(
      ExitCode::kBadData, [&] { make_dataset({.choice = choice(validation), .training = &training}); });
  EXPECT_TRUE(test::holds(error.hint(), "accents as in \u00e9 there"));
}

TEST(ImageFolder, AClassOfWhichManyFilesAreLeftOutIsAWarning) {
  const TemporaryFolder folder;
  fill(folder, {"a/1.png", "a/2.JFIF", "a/3.jpe", "b/1.png"});
  for (const char* const name : {"b/2.gif", "b/3.heic", "b/4.heic", "b/5"}) folder.write(name, "x");
  const std::string said = said_by([&] { make_dataset({choice(folder)}); }, log::Level::kWarning);
  EXPECT_TRUE(test::holds(said, "b: 4 of 5 files (1 without an ending, 1 .gif, 2 .heic)"));
  EXPECT_EQ(said.find("a: "), std::string::npos);
}

TEST(ImageFolder, ClassesThatWereNotMeantSoAreWarnings) {
  const auto said = [](const std::vector<std::string>& files) {
    const TemporaryFolder folder;
    fill(folder, files);
    return said_by([&] { make_dataset({choice(folder)}); }, log::Level::kWarning);
  };
  EXPECT_EQ(said({"a/1.png", "b/1.png", "__MACOSX/._1.png"}), "");
  EXPECT_TRUE(test::holds(said({"images/1.png", "images/2.png"}), "has one class only, \"images\""));
  EXPECT_TRUE(
      test::holds(said({"Cat/1.png", "cat/1.png", "dog/1.png"}), "\"Cat\" and \"cat\" are two classes"));
  EXPECT_TRUE(
      test::holds(said({"a/1.png", "a/more/2.png", "b/1.png"}), "a/more: 1 images there are not read"));
  EXPECT_TRUE(test::holds(said({"a/1.png", "a/more/deeper/2.png", "a/more/deeper/3.png", "b/1.png"}),
                          "a/more: 2 images there are not read"));
  EXPECT_EQ(said({"images/1.png", "cat/1.png"}), "");
  EXPECT_TRUE(test::holds(said({"\u00e9t\u00e9/1.png", "e\u0301te\u0301/1.png"}), "two classes may be one"));
  EXPECT_EQ(said({"\u00e9t\u00e9/1.png", "e\u0301te/1.png"}), "");
}

TEST(ImageFolder, PartsOfADataSetAreNoClasses) {
  const std::vector<std::vector<std::string>> sets = {
      {"images/1.png", "masks/1.png"}, {"train/1.png", "val/1.png"}, {"Training/1.png", "Testing/1.png"}};
  for (const auto& files : sets) {
    const TemporaryFolder folder;
    fill(folder, files);
    const Error error = test::expect_error(ExitCode::kBadData, [&] { make_dataset({choice(folder)}); });
    EXPECT_TRUE(test::holds(error.what(), "which are none"));
  }
}

TEST(ImageFolder, BitsOfSixteenAreThoseThatTheTrainingImagesUse) {
  const TemporaryFolder train, validation;
  train.write("a/1.png", test::wide_png_file(5, 5, std::vector<uint16_t>(25, 4000)));
  validation.write("a/1.png", test::wide_png_file(5, 5, std::vector<uint16_t>(25, 1000)));
  const Keys grey = {
      {"channels", int64_t{1}}, {"mean", std::vector<double>{0}}, {"deviation", std::vector<double>{1}}};
  const auto level = [](const Dataset& data) {
    return std::lround(test::samples(data, {0}).inputs[0][0][0][0].item<float>() * 255);
  };
  const Choice training = choice(train, grey);
  std::unique_ptr<Dataset> data;
  const std::string said = said_by([&] { data = make_dataset({training}); });
  EXPECT_EQ(level(*data), 4000 / 16);
  EXPECT_TRUE(test::holds(said, "use 12, since 4000 is the largest value in 1 of them: 4095 becomes 255"));
  EXPECT_EQ(level(*make_dataset({.choice = choice(validation, grey), .training = &training})), 1000 / 16)
      << "as in training";
  EXPECT_EQ(level(*make_unlabelled(validation.path(), {training}, *data)), 1000 / 16);
  Keys typed = grey;
  typed["bits"] = int64_t{16};
  EXPECT_EQ(level(*make_dataset({choice(train, typed)})), 4000 / 256);
}

DataLook look(const Choice& choice, LookDepth depth, const Choice* training = nullptr) {
  const DatasetPlace place{.choice = choice, .training = training};
  const auto data = make_dataset(place);
  const auto trained_on = training != nullptr ? make_dataset({*training}) : nullptr;
  return look_at(place, *data, trained_on.get(), {.depth = depth, .threads = 2});
}

const Doubt* doubt_of(const DataLook& look, const std::string& kind) {
  const auto found =
      std::ranges::find_if(look.doubts, [&](const Doubt& d) { return d.kind.starts_with(kind); });
  return found == look.doubts.end() ? nullptr : &*found;
}

// As other programs have them.
TEST(ImageFolder, AMeanOfPixelsUpTo255IsRefused) {
  const TemporaryFolder folder;
  fill(folder, {"a/1.png"});
  const Error mean = test::expect_error(ExitCode::kBadRecipe, [&] {
    make_dataset({choice(folder, {{"mean", std::vector<double>{123.675, 116.28, 103.53}}})});
  });
  EXPECT_TRUE(test::holds(mean.what(), "image_folder: mean: has 123.7, as for pixels from 0 to 255"));
  EXPECT_TRUE(test::holds(mean.hint(), "set mean: [0.485, 0.456, 0.406]"));
  const Error deviation = test::expect_error(ExitCode::kBadRecipe, [&] {
    make_dataset({choice(folder, {{"deviation", std::vector<double>{58.395, 57.12, 57.375}}})});
  });
  EXPECT_TRUE(test::holds(deviation.hint(), "set deviation: [0.229, 0.224, 0.225]"));
}

TEST(ImageFolder, ImagesThatAreNormalisedUnlikeTheTrainingImagesAreDoubted) {
  const TemporaryFolder train, other;
  fill(train, {"a/1.png", "b/1.png"});
  fill(other, {"a/2.png", "b/2.png"});
  const Choice training = choice(train, raw());
  const char* const kind = "validation images that are normalised unlike the training images";
  EXPECT_EQ(doubt_of(look(choice(other, raw()), LookDepth::kStart, &training), kind), nullptr);
  const DataLook found = look(choice(other), LookDepth::kStart, &training);
  const Doubt* const doubt = doubt_of(found, kind);
  ASSERT_NE(doubt, nullptr);
  EXPECT_TRUE(test::holds(doubt->places[0], "mean [0.485, 0.456, 0.406], deviation [0.229, 0.224, 0.225]; "));
}

TEST(ImageFolder, ImagesOfOneRecordingOnBothSidesOfASplitAreDoubted) {
  const auto doubted = [](const std::function<std::string(int)>& name_of) {
    const TemporaryFolder folder;
    std::vector<std::string> names;
    for (const char* const in : {"a/", "b/"})
      for (int i = 0; i < 120; ++i) names.push_back(in + name_of(i) + ".png");
    fill(folder, names);
    const Choice training = choice(folder, {{"split", std::string("train")}});
    const DataLook found =
        look(choice(folder, {{"split", std::string("validation")}}), LookDepth::kStart, &training);
    return doubt_of(found, "validation images whose names say") != nullptr;
  };
  const auto number = [](int i) { return std::to_string(i); };
  EXPECT_TRUE(doubted([&](int i) { return "clip" + number(i / 12) + "_" + number(i % 12); }));
  EXPECT_FALSE(doubted([&](int i) { return "image_" + number(i); }));
  EXPECT_FALSE(doubted(number));
  EXPECT_FALSE(doubted([&](int i) { return number(i * 7919 % 121) + "x" + number(i % 3); })) << "few of each";
}

// As where --set names another root beside the split of the run's recipe.
TEST(ImageFolder, APartOfAnotherFolderIsDoubted) {
  const TemporaryFolder train, other;
  std::vector<std::string> names;
  for (int i = 0; i < 120; ++i) names.push_back("a/" + std::to_string(i) + ".png");
  names.emplace_back("b/1.png");
  fill(train, names);
  fill(other, names);
  const Choice training = choice(train, {{"split", std::string("train")}});
  const auto doubted = [&](const TemporaryFolder& folder, const std::string& split) {
    const DataLook found = look(choice(folder, {{"split", split}}), LookDepth::kStart, &training);
    return doubt_of(found, "validation data that are a part of another file") != nullptr;
  };
  EXPECT_TRUE(doubted(other, "validation"));
  EXPECT_FALSE(doubted(other, "all"));
  EXPECT_FALSE(doubted(train, "validation"));
}

TEST(ImageFolder, ValuesBeyondTheBitsThatAreUsedAreDoubted) {
  const TemporaryFolder train, bright;
  train.write("a/1.png", test::wide_png_file(5, 5, std::vector<uint16_t>(25, 4000)));
  bright.write("a/1.png", test::wide_png_file(5, 5, std::vector<uint16_t>(25, 60000)));
  const Choice training = choice(train);
  const char* const kind = "images of 16 bits with values beyond the bits that are used";
  for (const LookDepth depth : {LookDepth::kStart, LookDepth::kWhole}) {
    EXPECT_EQ(doubt_of(look(training, depth), kind), nullptr);
    const DataLook found = look(choice(bright), depth, &training);
    const Doubt* const cut = doubt_of(found, kind);
    ASSERT_NE(cut, nullptr);
    EXPECT_TRUE(test::holds(cut->places[0], "1.png: values up to 60000, and 12 bits are used, up to 4095"));
  }
  const auto data = make_dataset({training});
  const auto doubts = [&](const TemporaryFolder& folder) {
    return doubts_of_unlabelled(folder.path(), {training}, *data,
                                *make_unlabelled(folder.path(), {training}, *data));
  };
  ASSERT_EQ(doubts(bright).size(), 1);
  EXPECT_TRUE(doubts(bright)[0].kind.starts_with(kind));
  EXPECT_TRUE(doubts(train).empty());
}

TEST(ImageFolder, BandsThatAreLeftOutAreDoubted) {
  const TemporaryFolder folder;
  folder.write("a/1.tif", test::tiff_file(test::gradient_image(5, 5, 5), 3));
  folder.write("b/1.png", test::png_file(test::gradient_image(5, 5, 3)));
  const DataLook found = look(choice(folder), LookDepth::kStart);
  const Doubt* const bands = doubt_of(found, "images with more bands");
  ASSERT_NE(bands, nullptr);
  EXPECT_TRUE(test::holds(bands->places[0], "a/1.tif: 2 left out"));
  EXPECT_EQ(bands->count, 1);
}

TEST(ImageFolder, ALookFindsWhatShowsNothingAndWhatIsThereTwice) {
  const TemporaryFolder train, validation;
  const std::string picture = test::png_file(test::gradient_image(9, 7, 3));
  const std::string jpeg = test::jpeg_file(test::gradient_image(64, 64, 3));
  train.write("a/1.png", picture);
  train.write("b/1.png", picture);
  train.write("b/2.png", png(5, 5, {9, 9, 9}));
  train.write("b/3.jpg", jpeg.substr(0, jpeg.size() / 2));
  DecodedImage hidden = test::plain_image(2, 2, {0, 0, 0, 0});
  hidden.pixels[3] = 255;
  train.write("b/4.png", test::png_file(hidden));
  const Choice training = choice(train, {{"alpha", std::string("drop")}});
  const DataLook whole = look(training, LookDepth::kWhole);
  for (const auto& [kind, place] :
       {std::pair{"images that are in two classes", "b/1.png"},
        {"images of a single colour", "b/2.png"},
        {"images that cannot be read", "b/3.jpg"},
        {"images whose picture is in their alpha, which is dropped", "b/4.png"}}) {
    const Doubt* const doubt = doubt_of(whole, kind);
    ASSERT_NE(doubt, nullptr) << kind;
    EXPECT_EQ(doubt->count, 1);
    EXPECT_TRUE(test::holds(doubt->places.at(0), place));
  }
  EXPECT_TRUE(doubt_of(whole, "images that cannot be read")->stops);
  ASSERT_EQ(whole.bars.size(), 1u);
  EXPECT_EQ(whole.bars[0].counts, (std::vector<int64_t>{1, 4}));
  EXPECT_EQ(doubt_of(look(choice(train), LookDepth::kWhole), "images whose picture"), nullptr)
      << "laid on white it is seen";
  validation.write("a/x.png", picture);
  const DataLook other = look(choice(validation), LookDepth::kWhole, &training);
  ASSERT_NE(doubt_of(other, "images that are in the training data too"), nullptr);
}

// Though it decodes few of the images, it knows the sizes of all files.
TEST(ImageFolder, ALookAtTheStartFindsEmptyFiles) {
  const TemporaryFolder folder;
  for (int i = 0; i < 60; ++i) {
    folder.write((i % 2 == 0 ? "a/" : "b/") + std::to_string(100 + i) + ".png",
                 i >= 20 && i < 26 ? std::string() : test::png_file(test::gradient_image(9, 7, 3)));
  }
  const DataLook found = look(choice(folder), LookDepth::kStart);
  const Doubt* const empty = doubt_of(found, "images that cannot be read");
  ASSERT_NE(empty, nullptr);
  EXPECT_EQ(empty->count, 6);
  EXPECT_TRUE(empty->stops);
}

TEST(ImageFolder, ALookAtTheStartDoubtsWhatMostImagesShare) {
  const TemporaryFolder folder;
  fill(folder, {"a/1.png", "a/2.png", "b/1.png"});  // of one colour each
  EXPECT_NE(doubt_of(look(choice(folder), LookDepth::kStart), "images of a single colour"), nullptr);
  for (int i = 0; i < 6; ++i)
    folder.write("b/x" + std::to_string(i) + ".png", test::png_file(test::gradient_image(9, 7, 3)));
  EXPECT_EQ(doubt_of(look(choice(folder), LookDepth::kStart), "images of a single colour"), nullptr);
}

TEST(ImageFolder, FoldersThatCannotServeSayWhy) {
  const TemporaryFolder folder;
  Error error = test::expect_error(ExitCode::kBadData, [&] { make_dataset({choice(folder)}); });
  EXPECT_TRUE(test::holds(error.what(), "holds no folders"));
  fs::create_directory(folder / "empty");
  error = test::expect_error(ExitCode::kBadData, [&] { make_dataset({choice(folder)}); });
  EXPECT_TRUE(test::holds(error.what(), "empty: holds no .jpg, "));
  fs::remove(folder / "empty");
  fill(folder, {"a/1.png"});
  fs::create_symlink("nowhere", folder / "a/2.png");
  error = test::expect_error(ExitCode::kMissingFile, [&] { make_dataset({choice(folder)}); });
  EXPECT_TRUE(test::holds(error.what(), "a/2.png"));
  fs::remove(folder / "a/2.png");
  ASSERT_EQ(::mkfifo((folder / "a/3.png").c_str(), 0600), 0);
  test::expect_error(ExitCode::kMissingFile, [&] { make_dataset({choice(folder)}); });
  test::expect_error(ExitCode::kMissingFile, [] {
    make_dataset({Choice{"image_folder", {{"root", std::string("/no/such/folder")}}}});
  });
  test::expect_error(ExitCode::kBadRecipe, [] { make_dataset({Choice{"image_folder", {}}}); });
}

TEST(ImageFolder, AFileThatMayNotBeReadIsFoundAtTheStart) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read every file";
  const TemporaryFolder folder;
  fill(folder, {"a/1.png"});
  fs::permissions(folder / "a/1.png", fs::perms::none);
  const Error error = test::expect_error(ExitCode::kMissingFile, [&] { make_dataset({choice(folder)}); });
  EXPECT_TRUE(test::holds(error.what(), "Permission denied"));
}

TEST(ImageFolder, KeysThatDoNotAgreeAreBadRecipes) {
  const TemporaryFolder folder;
  fill(folder, {"a/1.png"});
  const Keys two_means = {{"mean", std::vector<double>{0, 0}}}, grey = {{"channels", int64_t{1}}};
  test::expect_error(ExitCode::kBadRecipe, [&] { make_dataset({choice(folder, two_means)}); });
  test::expect_error(ExitCode::kBadRecipe, [&] {
    make_dataset({choice(folder, {{"channels", int64_t{2}}})});
  });
  const Error error = test::expect_error(ExitCode::kBadRecipe, [&] {
    make_dataset({choice(folder, grey), {.hue = 0.1}});
  });
  EXPECT_EQ(error.where(), "data.augment.hue");
}

TEST(ImageFolder, ABadSampleNamesItsNumberAndFile) {
  const TemporaryFolder folder;
  fill(folder, {"a/1.png", "a/2.png", "a/3.png"});
  const std::string jpeg = test::jpeg_file(test::gradient_image(40, 40, 3));
  folder.write("a/2.png", jpeg.substr(0, jpeg.size() / 2));
  const auto data = make_dataset({choice(folder)});
  Error error = test::expect_error(ExitCode::kBadData, [&] { test::samples(*data, {0, 1, 2}); });
  EXPECT_EQ(error.where(), "sample 1: " + (folder / "a/2.png").string());
  EXPECT_TRUE(test::holds(error.problem(), "Premature end"));
  fs::resize_file(folder / "a/3.png", uint64_t{1} << 32);  // a hole, not stored
  error = test::expect_error(ExitCode::kBadData, [&] { test::samples(*data, {2}); });
  EXPECT_TRUE(test::holds(error.problem(), "is 4.00 GiB large"));
  fs::remove(folder / "a/3.png");
  error = test::expect_error(ExitCode::kBadData, [&] { test::samples(*data, {2}); });
  EXPECT_EQ(error.where(), "sample 2: " + (folder / "a/3.png").string());
}

TEST(ImageFolder, LinksInACircleMultiplyNoImage) {
  const TemporaryFolder folder, outside;
  fill(folder, {"a/1.png"});
  fill(outside, {"2.png"});
  fs::create_directory_symlink(folder.path(), folder / "a" / "up");
  fs::create_directory_symlink(folder / "a", folder / "b");
  fs::create_directory_symlink(outside.path(), folder / "c");
  const Choice like = choice(folder);
  const auto data = make_unlabelled(folder.path(), {like}, *make_dataset({like}));
  EXPECT_EQ(data->size(), 2) << "a/1.png and c/2.png";
}

TEST(ImageFolder, SaysWhatItFound) {
  const TemporaryFolder folder;
  fill(folder, {"a/1.png", "b/2.png", "b/3.jpeg"});
  folder.write("b/readme", "x");
  std::string said;
  log::set_sink([&](const log::Record& record) { said += record.text; }, log::Level::kInfo);
  make_dataset({choice(folder)});
  log::set_sink(log::terminal_sink(), log::Level::kWarning);
  EXPECT_TRUE(test::holds(said, "3 images in 2 classes · "));
  EXPECT_TRUE(test::holds(said, "1 other files left out"));
}

}  // namespace
}  // namespace autotrain
