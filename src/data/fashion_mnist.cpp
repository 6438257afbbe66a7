#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <numeric>

#include "autotrain/error.h"
#include "base/text.h"
#include "base/units.h"
#include "data/datasets.h"
#include "data/file_names.h"
#include "data/idx.h"
#include "data/image_dataset.h"
#include "data/low_values.h"

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
                cat("the label ", static_cast<int>(values[i]), " of sample ", i, " is not below ", kClasses),
                "number the classes from 0, and save data of more than 10 as arrays: dataset: npy");
  }
  return labels.to(torch::kInt64);
}

// Of the file, not of the first few images that limit leaves.
void check_several_classes(const fs::path& path, const torch::Tensor& labels) {
  if (labels.size(0) < 2 || (labels != labels[0]).any().item<bool>()) return;
  throw Error(ExitCode::kBadData, path.string(),
              cat("has one class only, ", labels[0].item<int64_t>(), ": there is nothing to learn"),
              "take the file of labels that belongs to the images");
}

// That of the training data, where only these say one.
double validation_share(const DatasetRequest& request) {
  const double own = request.parameters.real("validation_share");
  if (request.training == nullptr || request.training->text("root") != request.parameters.text("root"))
    return own;
  const double training = request.training->real("validation_share");
  if (own == 0 || own == training) return training;
  throw Error(ExitCode::kBadRecipe, "validation_share",
              cat("is ", shortest(own), ", and data.train.validation_share is ", shortest(training),
                  ": the two would share samples, or leave some out"),
              "set it in data.train alone");
}

// Which of the training file's images the split reads.
std::pair<int64_t, int64_t> range_of(const DatasetRequest& request, int64_t images) {
  const std::string split = request.parameters.text("split");
  const double share = validation_share(request);
  const int64_t border = images - whole_part(static_cast<double>(images) * share);
  if (split != "validation") return {0, border};
  if (border < images) return {border, images};
  throw Error(ExitCode::kBadRecipe, "validation_share", "is 0, so that split: validation has no images",
              "set data.train.validation_share: 0.1, which data.validation takes over");
}

std::unique_ptr<Dataset> make_fashion_mnist(const DatasetRequest& request) {
  const Parameters& p = request.parameters;
  const fs::path root = p.text("root");
  const bool test = p.text("split") == "test";
  const std::string prefix = test ? "t10k" : "train";
  torch::Tensor images = read_idx(find_file(root, prefix + "-images-idx3-ubyte"), 3).unsqueeze(1);
  const fs::path label_file = find_file(root, prefix + "-labels-idx1-ubyte");
  torch::Tensor labels = read_labels(label_file, images.size(0));
  if (request.role == DataRole::kTraining) check_several_classes(label_file, labels);
  if (const auto [first, end] = range_of(request, images.size(0));
      !test && (first > 0 || end < images.size(0))) {
    images = images.slice(0, first, end).clone();
    labels = labels.slice(0, first, end).clone();
  }
  if (const auto limit = p.optional_integer("limit"); limit && *limit < images.size(0)) {
    images = images.slice(0, 0, *limit).clone();
    labels = labels.slice(0, 0, *limit).clone();
  }
  ImageDataset::Content content{.images = images, .labels = labels, .classes = kClasses};
  if (p.flag("normalize")) content.mean = {kMean}, content.deviation = {kDeviation};
  return std::make_unique<ImageDataset>(std::move(content), request.augment);
}

// Of the first images at a start, which tell whether the file's values are low throughout.
int64_t largest_value(const ImageDataset& images, LookDepth depth) {
  constexpr int64_t kAtOnce = 1024;
  const int64_t count = depth == LookDepth::kWhole ? images.size() : std::min(images.size(), kAtOnce);
  double largest = 0;
  for (int64_t first = 0; first < count; first += kAtOnce) {
    std::vector<int64_t> indices(static_cast<size_t>(std::min(kAtOnce, count - first)));
    std::iota(indices.begin(), indices.end(), first);
    const std::vector<int64_t> epochs(indices.size(), 0);
    const torch::Tensor inputs = images.get(indices, SampleRandom(0, indices, epochs)).inputs;
    largest = std::max(largest, inputs.max().item<double>() * images.deviation()[0] + images.mean()[0]);
  }
  return std::llround(255 * largest);
}

void doubt_unknown_classes(const std::string& root, const torch::Tensor& counts, const Dataset* training,
                           DataLook& look) {
  const auto* const theirs = dynamic_cast<const ImageDataset*>(training);
  if (theirs == nullptr || !theirs->labels().defined() || theirs->labels().is_floating_point()) return;
  const torch::Tensor known = torch::bincount(theirs->labels(), {}, kClasses);
  for (int64_t c = 0; c < kClasses; ++c) {
    if (counts[c].item<int64_t>() == 0 || known[c].item<int64_t>() > 0) continue;
    look.doubt(cat("classes of the ", word_of(look.role), " data that the training data lack"),
               "let both have every class, or leave such samples out", cat(root, ": class ", c));
  }
}

void look_at_fashion_mnist(const LookRequest& request, DataLook& look) {
  const auto* const images = dynamic_cast<const ImageDataset*>(&request.data);
  if (images == nullptr || !images->labels().defined()) return;
  const Parameters &own = request.made_from.parameters, *const training = request.made_from.training;
  if (training != nullptr && own.text("split") == training->text("split") &&
      are_same(own.text("root"), training->text("root")))
    look.doubt(cat(word_of(look.role), " data that are the training data"),
               "set split: test, or split: validation and data.train.validation_share", own.text("root"));
  if (training != nullptr && own.flag("normalize") != training->flag("normalize"))
    look.doubt(cat(word_of(look.role), " images that are normalised unlike the training images"),
               "leave normalize out there: it is the training data's then",
               cat(own.text("root"), ": normalize: ", own.flag("normalize") ? "true" : "false"));
  const std::vector<int64_t> shape = images->info().input_shape;
  look.what =
      cat("fashion_mnist ", request.made_from.parameters.text("root"), ": ", format_count(images->size()),
          " grey images of ", shape[1], " × ", shape[2], " in ", kClasses, " classes");
  const torch::Tensor counts = torch::bincount(images->labels(), {}, kClasses);
  doubt_low_values(largest_value(*images, request.options.depth), own.text("root"), "", look);
  doubt_unknown_classes(own.text("root"), counts, request.training, look);
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
       {word_key("split",
                 "Of the 60,000 training images those that train, or those that validate; or the 10,000 test "
                 "images.",
                 {"train", "validation", "test"}, "train"),
        real_key("validation_share",
                 "The part at the end of the training images that split: validation reads and split: train "
                 "leaves out; data.validation has that of data.train.",
                 0)
            .from(0, 0.9),
        text_key("root", "Folder of the four files, gzipped or not.", default_folder()),
        bool_key("normalize",
                 "Shift and scale to mean 0 and deviation 1 over Fashion-MNIST; false: pixels in [0, 1].",
                 true),
        integer_key("limit", "Use only the first so many images; null: all.").from(1).in("samples")}},
      make_fashion_mnist,
      {"flip", "crop_padding"},
      make_images_like_bytes,
      "a folder of images, or one image",
      look_at_fashion_mnist,
      {"normalize"}};
}

}  // namespace autotrain
