#include "checkpoint/weight_files.h"

#include "checkpoint/foreign_weights.h"
#include "support/support.h"

namespace autotrain {
namespace {

// Two shards of no content, beside an index of them.
class WeightFiles : public testing::Test {
 protected:
  std::filesystem::path index(const std::string& text) const {
    return folder_.write("model.safetensors.index.json", text);
  }

  void write_shards() const {
    for (const char* const name : {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"})
      folder_.write(name, "");
  }

  // What is said where `named`, by itself or as an index, is refused.
  static std::string refusal(const std::filesystem::path& named, ExitCode code = ExitCode::kBadData) {
    return test::expect_error(code,
                              [&] {
                                const std::filesystem::path file = weights_named(named);
                                if (is_weight_index(file)) read_weight_index(file);
                              })
        .what();
  }

  test::TemporaryFolder folder_;
};

TEST_F(WeightFiles, AnIndexNamesItsShardsInOrderWithTheirTensors) {
  write_shards();
  const auto shards = read_weight_index(index(R"({"metadata": {"total_size": 12}, "weight_map": {
      "a": "./model-00002-of-00002.safetensors", "b": "model-00001-of-00002.safetensors",
      "c": "model-00002-of-00002.safetensors"}})"));
  ASSERT_EQ(shards.size(), 2U);
  EXPECT_EQ(shards[0].path, folder_ / "model-00001-of-00002.safetensors");
  EXPECT_EQ(shards[1].names, (std::set<std::string>{"a", "c"}));
}

TEST_F(WeightFiles, AFolderStandsForTheOneFileOfWeightsInIt) {
  folder_.write("b.safetensors", "");
  EXPECT_EQ(weights_named(folder_.path()), folder_ / "b.safetensors");
  folder_.write("model.safetensors", "");
  EXPECT_EQ(weights_named(folder_.path()), folder_ / "model.safetensors") << "others are not called so";
  std::filesystem::remove(folder_ / "model.safetensors");
  const auto path = index("{}");
  EXPECT_EQ(weights_named(folder_.path()), path);
}

TEST_F(WeightFiles, OfARunsFolderTheNewestCheckpointIsNamed) {
  for (const char* const name : {"update-9", "update-25", "update-25.tmp"})
    folder_.write(std::string("run/checkpoints/") + name + "/model.safetensors", "");
  for (const auto& folder : {folder_ / "run", folder_ / "run/checkpoints"})
    EXPECT_TRUE(test::holds(refusal(folder, ExitCode::kMissingFile),
                            "as " + (folder_ / "run/checkpoints/update-25").string()));
}

TEST_F(WeightFiles, AFolderWithSeveralOrNoneIsRefused) {
  EXPECT_TRUE(test::holds(refusal(folder_.path(), ExitCode::kMissingFile), "holds no weights"));
  folder_.write("a.safetensors", "");
  folder_.write("b.safetensors", "");
  EXPECT_TRUE(test::holds(refusal(folder_.path()), "a.safetensors, b.safetensors"));
  folder_.write("model.safetensors", "");
  index("{}");
  EXPECT_TRUE(test::holds(refusal(folder_.path()), "model.safetensors.index.json, model.safetensors"));
}

TEST_F(WeightFiles, AShardByItselfIsRefusedAsAPart) {
  write_shards();
  const auto second = folder_ / "model-00002-of-00002.safetensors";
  EXPECT_TRUE(test::holds(refusal(second), "is part 2 of 2 of a model"));
  EXPECT_TRUE(test::holds(refusal(second), "name that"));
  EXPECT_TRUE(test::holds(refusal(folder_.path()), "is part 1 of 2"));
  const auto path = index("{}");
  EXPECT_TRUE(test::holds(refusal(second), "name " + path.string()));
  for (const char* const whole : {"a-00001-of-00001.safetensors", "one-of-a-kind.safetensors",
                                  "2-of-2.pt.safetensors", "a-3-of-2.safetensors"}) {
    folder_.write(whole, "");
    EXPECT_EQ(weights_named(folder_ / whole), folder_ / whole);
  }
}

TEST_F(WeightFiles, WhatIsNoIndexIsRefused) {
  EXPECT_TRUE(test::holds(refusal(index("weights")), "is no JSON object"));
  EXPECT_TRUE(test::holds(refusal(index("[1]")), "is no JSON object"));
  for (const char* const text : {"{}", R"({"weight_map": {}})", R"({"weight_map": ["a"]})"})
    EXPECT_TRUE(test::holds(refusal(index(text)), "weight_map")) << text;
  EXPECT_TRUE(
      test::holds(refusal(index(R"({"weight_map": {"a": 3}})")), "no name of a file for tensor \"a\""));
  write_shards();
  EXPECT_TRUE(test::holds(refusal(index(R"({"weight_map": {"a": "model-00001-of-00002.safetensors",
      "a": "model-00002-of-00002.safetensors"}})")),
                          "names tensor \"a\" twice"));
}

TEST_F(WeightFiles, PathsThatLeaveTheFolderAreRefused) {
  folder_.write("x.safetensors", "");
  for (const std::string& path :
       {std::string("../x.safetensors"), (folder_ / "x.safetensors").string(),
        std::string("a/../../x.safetensors"), std::string("x\\u0000.safetensors")}) {
    const std::string said = refusal(index("{\"weight_map\": {\"a\": \"" + path + "\"}}"));
    EXPECT_TRUE(test::holds(said, "which is not in its folder"));
  }
  for (const char* const path : {"", "x", "pytorch_model.bin"}) {
    const std::string said = refusal(index(std::string("{\"weight_map\": {\"a\": \"") + path + "\"}}"));
    EXPECT_TRUE(test::holds(said, "tensor \"a\"")) << path;
  }
}

TEST_F(WeightFiles, OfAnotherFormatAreRefusedByWhatTheyAre) {
  const std::string zip("PK\x03\x04\x14\0\x08\x08", 8), gguf("GGUF\x03\0\0\0", 8);
  struct Case {
    const char* name;
    std::string content;
    const char* said;
  };
  for (const Case& each :
       {Case{"pytorch_model.bin", "x", "is a pickle"},
        {"renamed.safetensors", zip, "is a pickle"},
        {"last.ckpt", "x", "torch.load"},
        {"m.gguf", "x", "is GGUF"},
        {"m", gguf, "is GGUF"},
        {"m.onnx", "x", "is ONNX"},
        {"flax_model.msgpack", "x", "is Flax's"},
        {"tf_model.h5", "x", "is HDF5"},
        {"m.safetensors", "version https://git-lfs.github.com/spec/v1\n", "git lfs pull"}}) {
    folder_.write(each.name, each.content);
    EXPECT_TRUE(test::holds(refusal(folder_ / each.name), each.said)) << each.name;
  }
}

TEST_F(WeightFiles, PicklesOfAFolderAreAllConverted) {
  folder_.write("pytorch_model-00001-of-00002.bin", "x");
  folder_.write("pytorch_model.bin.index.json", "{}");
  for (const auto& named : {folder_.path(), folder_ / "pytorch_model.bin.index.json"})
    EXPECT_TRUE(test::holds(refusal(named), "glob.glob(\"pytorch_model-*-of-*.bin\", root_dir=folder)"));
}

// Header lengths of safetensors may begin with the bytes of other formats, and their names may end as
// others'.
TEST_F(WeightFiles, SafetensorsAreNotTakenForAnotherFormat) {
  for (const char* const name : {"m.safetensors", "m.ckpt", "pytorch_model.bin", "fold-1-of-5.safetensors"}) {
    folder_.write(name, std::string("GGUF\0\0\0\0{}", 10));
    EXPECT_EQ(weights_named(folder_ / name), folder_ / name);
  }
  EXPECT_EQ(weights_named(folder_ / "none.bin"), folder_ / "none.bin")
      << "who opens it says that it is missing";
}

}  // namespace
}  // namespace autotrain
