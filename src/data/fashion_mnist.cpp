#include <cstdlib>
#include <filesystem>

#include "autotrain/error.h"
#include "base/text.h"
#include "base/units.h"
#include "data/datasets.h"
#include "data/idx.h"
#include "data/image_dataset.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

// Where Debian's package puts the files, unless FMNIST_DIR names another folder: on a machine without
// Debian's packages.
std::string default_folder() {
  const char* const given = std::getenv("FMNIST_DIR");
  return given != nullptr && *given != '\0' ? given : "/usr/share/datasets/fashion-mnist";
}
constexpr int64_t kClasses = 10;

// Mean and deviation of the 60,000 training images ÷ 255, computed from the files.
constexpr double kMean = 0.2860;
constexpr double kDeviation = 0.3530;

// "train-images-idx3-ubyte", gzipped or not, whichever is there.
fs::path find_file(const fs::path& root, const std::string& name) {
  for (const fs::path& candidate : {root / name, root / (name + ".gz")}) {
    std::error_code error;
    if (fs::exists(candidate, error)) return candidate;
  }
  throw Error(ExitCode::kMissingFile, (root / name).string(), "no such file, nor with .gz",
              "install Debian's dataset-fashion-mnist, or set root to a folder of MNIST files");
}

torch::Tensor read_labels(const fs::path& path, int64_t images) {
  const torch::Tensor labels = read_idx(path, 1);
  if (labels.size(0) != images) {
    throw Error(ExitCode::kBadData, cat(path.string(), ": offset 4"),
                cat(labels.size(0), " labels for ", images, " images"),
                "take both files from the same place");
  }
  const auto* const values = labels.const_data_ptr<uint8_t>();
  for (int64_t i = 0; i < images; ++i) {
    if (values[i] < kClasses) continue;
    throw Error(ExitCode::kBadData, cat(path.string(), ": offset ", 8 + i),
                cat("the label ", static_cast<int>(values[i]), " of sample ", i, " is not below ", kClasses));
  }
  return labels.to(torch::kInt64);
}

std::unique_ptr<Dataset> make_fashion_mnist(const DatasetRequest& request) {
  const Parameters& p = request.parameters;
  const fs::path root = p.text("root");
  const std::string prefix = p.text("split") == "train" ? "train" : "t10k";
  torch::Tensor images = read_idx(find_file(root, prefix + "-images-idx3-ubyte"), 3).unsqueeze(1);
  torch::Tensor labels = read_labels(find_file(root, prefix + "-labels-idx1-ubyte"), images.size(0));
  if (const auto limit = p.optional_integer("limit"); limit && *limit < images.size(0)) {
    images = images.slice(0, 0, *limit).clone();
    labels = labels.slice(0, 0, *limit).clone();
  }
  ImageDataset::Content content{.images = images, .labels = labels, .classes = kClasses};
  if (p.flag("normalize")) content.mean = {kMean}, content.deviation = {kDeviation};
  return std::make_unique<ImageDataset>(std::move(content), request.augment);
}

void look_at_fashion_mnist(const LookRequest& request, DataLook& look) {
  const auto* const images = dynamic_cast<const ImageDataset*>(&request.data);
  if (images == nullptr || !images->labels().defined()) return;
  const std::vector<int64_t> shape = images->info().input_shape;
  look.what =
      cat("fashion_mnist ", request.made_from.parameters.text("root"), ": ", format_count(images->size()),
          " grey images of ", shape[1], " × ", shape[2], " in ", kClasses, " classes");
  const torch::Tensor counts = torch::bincount(images->labels(), {}, kClasses);
  LookBars bars{.title = "images by class"};
  LookTable table{.title = "classes", .header = {"class", "images"}};
  for (int64_t i = 0; i < kClasses; ++i) {
    const int64_t count = counts[i].item<int64_t>();
    bars.labels.push_back(cat(i)), bars.counts.push_back(count);
    table.rows.push_back({i, count});
    if (count == 0) look.facts.emplace_back("class without an image", cat(i));
  }
  look.bars.push_back(std::move(bars));
  look.tables.push_back(std::move(table));
}

}  // namespace

DatasetRow fashion_mnist_row() {
  return {
      {"fashion_mnist",
       "28 × 28 grey images in 10 classes from MNIST's IDX files: Fashion-MNIST, or any set in that format.",
       {word_key("split", "60,000 training or 10,000 test images.", {"train", "test"}, "train"),
        text_key("root", "Folder of the four files, gzipped or not.", default_folder()),
        bool_key("normalize",
                 "Shift and scale to mean 0 and deviation 1 over Fashion-MNIST; false: pixels in [0, 1].",
                 true),
        integer_key("limit", "Use only the first so many images; null: all.").from(1).in("samples")}},
      make_fashion_mnist,
      {"flip", "crop_padding"},
      make_images_like_bytes,
      "a folder of images, or one image",
      look_at_fashion_mnist};
}

}  // namespace autotrain
