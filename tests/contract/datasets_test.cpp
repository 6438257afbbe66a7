// Tests what holds for every row of the data set table.
#include <thread>

#include "base/random.h"
#include "data/datasets.h"
#include "data/preload.h"
#include "plan/trial_batches.h"
#include "support/images.h"
#include "support/npy.h"
#include "support/support.h"

namespace autotrain {
namespace {

// Tiny files of every format, for as long as the tests run.
std::string file(const std::string& name) {
  static const test::TemporaryFolder folder;
  static const bool written = [] {
    const std::vector<int16_t> numbers = {1, 0, 2, 1, 3, 0, 1, 1, 2, 0, 0, 1, 5, 7, 2, 9};
    const std::string content = test::bytes_of_numbers(numbers);
    folder.write("images.npy", test::npy_file(test::npy_dictionary("|u1", "(4, 2, 4)"), content));
    folder.write("vectors.npy", test::npy_file(test::npy_dictionary("<i2", "(4, 4)"), content));
    folder.write("classes.npy", test::npy_file(test::npy_dictionary("<i2", "(4,)"), content.substr(0, 8)));
    folder.write("reals.npy", test::npy_file(test::npy_dictionary("<f8", "(4,)"), content));
    folder.write("tokens.bin", content);
    folder.write("documents.txt", "ab\n\nabcdefghijklmnop\nc\nabc\n");
    folder.write("table.csv", "a,b,y\n1,red,0\n2,blue,2\n3,red,1\n4,,0\n");
    folder.write("reals.csv", "a,b,y\n1,red,0.5\n2,blue,2\n3,red,1\n4,,0\n");
    return true;
  }();
  return written ? (folder / name).string() : "";
}

// Two classes of tiny images, of several sizes and both formats.
std::string image_folder() {
  static const test::TemporaryFolder folder;
  for (int64_t i = 0; i < 4; ++i) {
    const std::string name = std::string(i < 2 ? "a/" : "b/") + std::to_string(i);
    const DecodedImage image = test::gradient_image(9 + 3 * i, 20 - 2 * i, i == 1 ? 1 : 3);
    folder.write(name + (i % 2 == 0 ? ".jpg" : ".PNG"),
                 i % 2 == 0 ? test::jpeg_file(image) : test::png_file(image));
  }
  return folder.path().string();
}

// Images of several sizes with no, one and two boxes.
std::string yolo_folder() {
  static const test::TemporaryFolder folder;
  for (int64_t i = 0; i < 3; ++i) {
    const std::string name = std::to_string(i);
    folder.write("images/" + name + ".jpg", test::jpeg_file(test::gradient_image(12 + i, 20 - i, 3)));
    if (i > 0) folder.write("labels/" + name + ".txt", "1 0.5 0.5 0.25 0.3\n");
  }
  folder.write("labels/2.txt", "0 0.2 0.25 0.2 0.2\n3 0.5 0.5 0.4 0.4\n");
  return folder.path().string();
}

// The same images with boxes in one file.
std::string coco_file() {
  static const test::TemporaryFolder folder;
  std::string images, boxes;
  for (int64_t i = 0; i < 3; ++i) {
    const std::string id = std::to_string(i), comma = i > 0 ? "," : "";
    images += comma + R"({"id":)" + id + R"(,"file_name":")" + id + R"(.jpg","width":)" +
              std::to_string(20 - i) + R"(,"height":)" + std::to_string(12 + i) + "}";
    boxes += comma + R"({"image_id":)" + id + R"(,"category_id":7,"bbox":[)" + id + ",2,6,5]}";
  }
  folder.write("a.json", R"({"images":[)" + images + R"(],"annotations":[)" + boxes +
                             R"(],"categories":[{"id":7,"name":"a"},{"id":2,"name":"b"}]})");
  return (folder / "a.json").string();
}

std::vector<Choice> choices() {
  return {{"coco",
           {{"images", yolo_folder() + "/images"},
            {"annotations", coco_file()},
            {"size", std::vector<int64_t>{16, 12}}}},
          {"yolo",
           {{"images", yolo_folder() + "/images"},
            {"labels", yolo_folder() + "/labels"},
            {"classes", int64_t{4}},
            {"size", std::vector<int64_t>{16, 12}}}},
          {"image_folder", {{"root", image_folder()}, {"size", std::vector<int64_t>{8, 10}}}},
          {"fashion_mnist", {{"limit", int64_t{300}}}},
          {"synthetic", {{"kind", std::string("images")}, {"shape", std::vector<int64_t>{3, 8, 8}}}},
          {"synthetic", {{"kind", std::string("vectors")}}},
          {"synthetic", {{"kind", std::string("tokens")}}},
          {"npy", {{"inputs", file("images.npy")}, {"targets", file("classes.npy")}}},
          {"npy", {{"inputs", file("vectors.npy")}, {"targets", file("reals.npy")}}},
          {"table", {{"file", file("table.csv")}, {"target", std::string("y")}}},
          {"table", {{"file", file("reals.csv")}, {"target", std::string("y")}}},
          {"tokens",
           {{"files", std::vector<std::string>{file("tokens.bin")}},
            {"context", int64_t{3}},
            {"vocabulary", int64_t{10}}}},
          {"documents",
           {{"files", std::vector<std::string>{file("documents.txt")}},
            {"context", int64_t{6}},
            {"multiple_of", int64_t{1}}}},
          {"text", {{"files", std::vector<std::string>{"/usr/share/common-licenses/GPL-*"}}}}};
}

Batch get(const Dataset& data, const std::vector<int64_t>& indices) {
  const std::vector<int64_t> epochs(indices.size(), 0);
  return data.get(indices, SampleRandom(0, indices, epochs));
}

constexpr int64_t kIgnored = -100;  // a target that fills up

// Row i of a batch without what fills it up to the longest.
Batch alone(const Batch& batch, int64_t i, int64_t length) {
  EXPECT_TRUE((batch.targets[i].slice(0, length) == kIgnored).all().item<bool>());
  return {batch.inputs[i].slice(0, 0, length), batch.targets[i].slice(0, 0, length), 1};
}

TEST(DatasetContract, EveryRowIsCovered) {
  std::set<std::string> covered;
  for (const Choice& choice : choices()) covered.insert(choice.name);
  for (const DatasetRow& row : dataset_table()) EXPECT_TRUE(covered.contains(row.spec.name)) << row.spec.name;
}

TEST(DatasetContract, SamplesHaveTheShapeThatInfoSays) {
  for (const Choice& choice : choices()) {
    const auto data = make_dataset({choice});
    const Batch batch = get(*data, {0, 1, 2});
    const DatasetInfo info = data->info();
    std::vector<int64_t> shape = {3};
    shape.insert(shape.end(), info.input_shape.begin(), info.input_shape.end());
    const bool of_any_length = data->cost(0).has_value();
    if (of_any_length) {
      EXPECT_LE(batch.inputs.size(1), shape[1]) << choice.name;
      shape[1] = batch.inputs.size(1);
    }
    EXPECT_EQ(batch.inputs.sizes(), shape) << choice.name;
    EXPECT_EQ(batch.samples, 3);
    const bool boxes = batch.targets.dim() == 3;  // each begins with its class, or −1 for none
    if (batch.targets.is_floating_point() && !boxes) {
      EXPECT_EQ(batch.targets.size(-1), info.classes) << choice.name;
    } else {
      const torch::Tensor classes = boxes ? batch.targets.select(2, 0) : batch.targets;
      EXPECT_LT(classes.max().item<int64_t>(), info.classes) << choice.name;
      EXPECT_GE(classes.min().item<int64_t>(), boxes ? -1 : of_any_length ? kIgnored : 0) << choice.name;
    }
    if (info.vocabulary > 0) {
      EXPECT_LT(batch.inputs.max().item<int64_t>(), info.vocabulary);
    }
  }
}

TEST(DatasetContract, ABatchIsItsSamplesInOrder) {
  for (const Choice& choice : choices()) {
    const auto data = make_dataset({choice});
    const int64_t last = data->size() - 1;
    const Batch batch = get(*data, {last, 0, last});
    if (data->cost(0)) {
      for (const auto& [row, index] : {std::pair{0, last}, {1, int64_t{0}}, {2, last}}) {
        const Batch single = get(*data, {index}), part = alone(batch, row, single.inputs.size(1));
        EXPECT_TRUE(part.inputs.equal(single.inputs[0])) << choice.name;
        EXPECT_TRUE(part.targets.equal(single.targets[0])) << choice.name;
      }
      continue;
    }
    EXPECT_TRUE(batch.inputs[0].equal(get(*data, {last}).inputs[0])) << choice.name;
    EXPECT_TRUE(batch.inputs[1].equal(get(*data, {0}).inputs[0])) << choice.name;
    EXPECT_TRUE(batch.inputs[2].equal(batch.inputs[0])) << choice.name;
    EXPECT_TRUE(batch.targets[2].equal(batch.targets[0])) << choice.name;
  }
}

TEST(DatasetContract, CostsAreOfAllSamplesOrOfNoneAndWhatCostsMoreIsNotSmaller) {
  for (const Choice& choice : choices()) {
    const auto data = make_dataset({choice});
    for (int64_t i = 0; i < std::min<int64_t>(data->size(), 20); ++i) {
      ASSERT_EQ(data->cost(i).has_value(), data->cost(0).has_value()) << choice.name;
      const size_t first = get(*data, {0}).inputs.nbytes(), other = get(*data, {i}).inputs.nbytes();
      const bool more = data->cost(i) >= data->cost(0), less = data->cost(i) <= data->cost(0);
      EXPECT_TRUE((!more || other >= first) && (!less || other <= first)) << choice.name << " " << i;
    }
  }
}

std::map<std::string, AugmentRecipe> single_augmentations() {
  return {{"flip", {.flip = true}},
          {"crop_padding", {.crop_padding = 2}},
          {"random_resized_crop", {.random_resized_crop = AreaShare{}}},
          {"brightness", {.brightness = 0.5}},
          {"contrast", {.contrast = 0.5}},
          {"saturation", {.saturation = 0.5}},
          {"hue", {.hue = 0.5}},
          {"scale", {.scale = 0.5}},
          {"translate", {.translate = 0.5}},
          {"shear", {.shear = 30}},
          {"mosaic", {.mosaic = 1}},
          {"mix_up", {.mix_up = 1}}};
}

// Says what can be done to the samples of a choice; arrays in npy files need not be images.
std::vector<std::string> augmentations_of(const Choice& choice) {
  if (make_dataset({choice})->info().kind != DatasetInfo::Kind::kImages) return {};
  const auto& table = dataset_table();
  return std::find_if(table.begin(), table.end(),
                      [&](const DatasetRow& row) { return row.spec.name == choice.name; })
      ->augmentations;
}

TEST(DatasetContract, AnAugmentationChangesSamplesOrIsRefusedByName) {
  for (const Choice& choice : choices()) {
    const std::vector<std::string> known = augmentations_of(choice);
    for (const auto& [key, augment] : single_augmentations()) {
      if (std::find(known.begin(), known.end(), key) == known.end()) {
        const Error error = test::expect_error(ExitCode::kBadRecipe, [&, a = augment] {
          make_dataset({choice, a});
        });
        EXPECT_EQ(error.where(), "data.augment." + key) << choice.name;
        continue;
      }
      const auto data = make_dataset({choice, augment});
      const std::vector<int64_t> indices(16, 0);
      std::vector<int64_t> epochs(16);
      std::iota(epochs.begin(), epochs.end(), 0);
      const Batch batch = data->get(indices, SampleRandom(0, indices, epochs));
      const torch::Tensor plain = get(*make_dataset({choice}), {0}).inputs;
      EXPECT_FALSE(batch.inputs.equal(plain.expand_as(batch.inputs))) << choice.name << " " << key;
    }
  }
}

AugmentRecipe all_augmentations(const Choice& choice) {
  AugmentRecipe everything;
  for (const std::string& key : augmentations_of(choice)) {
    if (key == "flip") everything.flip = true;
    if (key == "crop_padding") everything.crop_padding = 2;
    if (key == "random_resized_crop") everything.random_resized_crop = AreaShare{};
    if (key == "hue") everything.hue = everything.brightness = 0.4;
    if (key == "mosaic") everything.mosaic = everything.mix_up = 0.5;
    if (key == "scale") everything.scale = 0.4, everything.shear = 10;
  }
  return everything;
}

// With everything, and without what keeps decoded images from being held.
std::vector<AugmentRecipe> several_augmentations(const Choice& choice) {
  AugmentRecipe some = all_augmentations(choice), few;
  some.random_resized_crop.reset();
  few = some;
  few.brightness = few.hue = 0;
  return {{}, few, some, all_augmentations(choice)};
}

TEST(DatasetContract, HeldInMemoryTheBatchesAreTheSame) {
  std::set<std::string> held;
  for (const Choice& choice : choices()) {
    for (const AugmentRecipe& augment : several_augmentations(choice)) {
      const auto plain = make_dataset({choice, augment}), preloaded = make_dataset({choice, augment});
      auto* const offer = dynamic_cast<Preloadable*>(preloaded.get());
      if (offer == nullptr || offer->ram_bytes() == 0) continue;
      held.insert(choice.name);
      offer->preload({.threads = 3});
      const int64_t last = plain->size() - 1;
      const std::vector<int64_t> indices = {last, 0, 1, last, 2}, epochs = {0, 0, 1, 2, 7};
      for (const uint64_t seed : {1, 2, 3, 4}) {
        const SampleRandom random(seed, indices, epochs);
        const Batch expected = plain->get(indices, random), batch = preloaded->get(indices, random);
        EXPECT_TRUE(batch.inputs.equal(expected.inputs)) << choice.name;
        ASSERT_EQ(batch.targets.defined(), expected.targets.defined());
        const bool same = !expected.targets.defined() || batch.targets.equal(expected.targets);
        EXPECT_TRUE(same) << choice.name;
      }
    }
  }
  EXPECT_EQ(held,
            (std::set<std::string>{"coco", "documents", "image_folder", "npy", "text", "tokens", "yolo"}));
}

TEST(DatasetContract, MadeInPartsByThreadsABatchIsTheLoaders) {
  for (const Choice& choice : choices()) {
    for (const bool channels_last : {false, true}) {
      const auto data = make_dataset({choice, all_augmentations(choice)});
      const Stream stream(3, data->size(), /*shuffle=*/true);
      TrialBatches batches(*data, stream, {.workers = 3, .channels_last = channels_last}, int64_t{1} << 30);
      for (const int64_t samples : {1, 3, 11, 4}) {
        const Piece piece = consecutive(2, samples);
        Loader loader(*data, stream, repeated({piece}), {.prefetch = 0, .channels_last = channels_last});
        const Batch expected = *loader.next(), batch = batches.get(piece);
        EXPECT_TRUE(batch.inputs.equal(expected.inputs)) << choice.name;
        EXPECT_EQ(batch.inputs.strides(), expected.inputs.strides()) << choice.name;
        ASSERT_EQ(batch.targets.defined(), expected.targets.defined()) << choice.name;
        if (!expected.targets.defined()) continue;
        EXPECT_TRUE(batch.targets.equal(expected.targets)) << choice.name;
      }
    }
  }
}

TEST(DatasetContract, ThreadsThatAskAtOnceGetEqualBatches) {
  for (const Choice& choice : choices()) {
    const auto data = make_dataset({choice, all_augmentations(choice)});
    std::vector<Batch> batches(3);
    std::vector<std::thread> threads;
    for (Batch& batch : batches) {
      threads.emplace_back([&] {
        for (int round = 0; round < 20; ++round) batch = get(*data, {2, 0, 1, data->size() - 1, 2});
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const Batch& batch : batches) {
      EXPECT_TRUE(batch.inputs.equal(batches[0].inputs)) << choice.name;
      EXPECT_TRUE(batch.targets.equal(batches[0].targets)) << choice.name;
    }
  }
}

}  // namespace
}  // namespace autotrain
