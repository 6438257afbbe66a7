#include <algorithm>

#include "autotrain/error.h"
#include "base/enum_names.h"
#include "base/random.h"
#include "base/text.h"
#include "data/class_files.h"
#include "data/colour.h"
#include "data/datasets.h"
#include "data/file_sequence.h"
#include "data/placement.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

// Of ImageNet's training images, ÷ 255, as in torchvision's documentation of its models.
const std::vector<double> kImageNetMean = {0.485, 0.456, 0.406};
const std::vector<double> kImageNetDeviation = {0.229, 0.224, 0.225};

// Images decoded when they are asked for.
class ImageFolder final : public Dataset {
 public:
  enum class Resize { kCrop, kStretch, kPad };

  struct Options {
    fs::path root;
    ImageSize size;
    int64_t channels = 3;
    Resize resize = Resize::kCrop;
    Normalisation normalisation;
    AugmentRecipe augment;
  };

  ImageFolder(ClassFiles files, Options options) : files_(std::move(files)), o_(std::move(options)) {}

  int64_t size() const override { return files_.names.size(); }

  DatasetInfo info() const override {
    return {.kind = DatasetInfo::Kind::kImages,
            .input_shape = {o_.channels, o_.size.height, o_.size.width},
            .classes = files_.class_count};
  }

  Batch get(c10::ArrayRef<int64_t> indices, const SampleRandom& random) const override {
    const auto n = static_cast<int64_t>(indices.size());
    Batch batch{torch::empty({n, o_.channels, o_.size.height, o_.size.width}, torch::kFloat32),
                torch::empty({n}, torch::kInt64), n};
    auto* const labels = batch.targets.mutable_data_ptr<int64_t>();
    Planes planes{batch.inputs.mutable_data_ptr<float>(), o_.channels, o_.size};
    FileSequence files(paths(indices));
    for (size_t i = 0; i < indices.size(); ++i) {
      const std::string where = cat("sample ", indices[i], ": ", path(indices[i]));
      draw_sample(files.next(where), where, Random(random.key(i)), planes);
      labels[i] = files_.classes[static_cast<size_t>(indices[i])];
      planes.data += o_.channels * o_.size.height * o_.size.width;
    }
    return batch;
  }

 private:
  std::string path(int64_t index) const { return (o_.root / files_.names[index]).string(); }

  std::vector<std::string> paths(c10::ArrayRef<int64_t> indices) const {
    std::vector<std::string> all;
    for (const int64_t index : indices) all.push_back(path(index));
    return all;
  }

  Placement place(const ImageSize& image, Random& random) const {
    const Box whole{0, 0, o_.size.height, o_.size.width};
    if (o_.augment.random_resized_crop)
      return {draw_crop(image, *o_.augment.random_resized_crop, random), whole};
    switch (o_.resize) {
      case Resize::kCrop: return covering(image, whole);
      case Resize::kStretch: return stretched(image, o_.size);
      case Resize::kPad: break;
    }
    return letterboxed(image, o_.size);
  }

  void draw_sample(std::span<const uint8_t> file, const std::string& where, Random random,
                   const Planes& planes) const {
    const ImageSize size = read_image_size(file, where);
    const Placement placement = place(size, random);
    const bool mirrored = o_.augment.flip && (random.next() >> 63) != 0;
    const ColourChange colours = draw_colour_change(o_.augment, random);
    if (o_.resize == Resize::kPad) std::fill(planes.data, planes.row(planes.channels, 0), 0.0f);
    draw_image(file, where, size, placement, planes);
    change_colours(planes, colours);
    o_.normalisation.apply(planes);
    if (mirrored) mirror(planes);
  }

  ClassFiles files_;
  Options o_;
};

constexpr auto enum_names(ImageFolder::Resize) {
  using R = ImageFolder::Resize;
  return std::array{EnumName<R>{R::kCrop, "crop"}, EnumName<R>{R::kStretch, "stretch"},
                    EnumName<R>{R::kPad, "pad"}};
}

// One number for each channel.
std::vector<double> per_channel(const Parameters& p, const char* key, const std::vector<double>& colours) {
  const auto channels = static_cast<size_t>(p.integer("channels"));
  std::vector<double> numbers = p.reals(key);
  if (numbers.empty()) return channels == 3 ? colours : std::vector<double>{0.5};
  if (numbers.size() == channels) return numbers;
  throw Error(ExitCode::kBadRecipe, cat("image_folder: ", key),
              cat("has ", numbers.size(), " numbers for ", channels, " channels"),
              "give one for each channel");
}

void check_channels(const AugmentRecipe& augment, int64_t channels) {
  if (channels == 2) {
    throw Error(ExitCode::kBadRecipe, "image_folder: channels", "is 2", "set 3 for colours, 1 for grey");
  }
  if (channels == 3 || (augment.saturation == 0 && augment.hue == 0)) return;
  throw Error(ExitCode::kBadRecipe, augment.hue > 0 ? "data.augment.hue" : "data.augment.saturation",
              "grey images have no colours", "remove it, or set channels: 3");
}

std::unique_ptr<Dataset> make(const DatasetRequest& request) {
  const Parameters& p = request.parameters;
  const std::vector<int64_t> size = p.integers("size");
  const fs::path root = p.text("root");
  if (root.empty()) throw Error(ExitCode::kBadRecipe, "image_folder: root", "is not set", "name a folder");
  check_channels(request.augment, p.integer("channels"));
  ImageFolder::Options options{.root = root,
                               .size = {size[0], size[1]},
                               .channels = p.integer("channels"),
                               .resize = *parse_enum<ImageFolder::Resize>(p.text("resize")),
                               .normalisation = {per_channel(p, "mean", kImageNetMean),
                                                 per_channel(p, "deviation", kImageNetDeviation)},
                               .augment = request.augment};
  const Selection selection{.split = *parse_enum<Split>(p.text("split")),
                            .validation_share = p.real("validation_share"),
                            .limit = p.optional_integer("limit")};
  return std::make_unique<ImageFolder>(find_class_files(root, p.text("classes_from"), selection),
                                       std::move(options));
}

}  // namespace

DatasetRow image_folder_row() {
  return {
      {"image_folder",
       "JPEG and PNG files in one folder for each class, decoded as they are needed.",
       {text_key("root",
                 "The folder of the class folders; classes are numbered in the order of their names."),
        list_key(KeyKind::kIntegerList, "size", "[height, width] of a sample.",
                 std::vector<int64_t>{224, 224})
            .from(1, 16384)
            .of_length(2)
            .in("pixels"),
        word_key(
            "resize",
            "crop: the largest middle part of that shape, resized; stretch: all of it, out of shape; pad: "
            "all of it, in shape, on black. random_resized_crop takes its place.",
            choices_of<ImageFolder::Resize>(), "crop"),
        integer_key("channels", "3: colours; 1: grey. Files of the other kind are converted.", 3).from(1, 3),
        list_key(KeyKind::kRealList, "mean",
                 "Subtracted from each channel's pixels in [0, 1]; null: of ImageNet, or 0.5 for grey.")
            .from(-1000, 1000),
        list_key(KeyKind::kRealList, "deviation",
                 "Divides each channel after that; null: of ImageNet, or 0.5 for grey.")
            .above(0, 1000),
        text_key("classes_from",
                 "A folder whose class folders give the numbers, for a root in which some classes may be "
                 "missing; null: root."),
        word_key("split", "Which files: train and validation divide them by a hash of class and file name.",
                 choices_of<Split>(), "all"),
        real_key("validation_share", "The share of files that fall to split: validation.", 0.1).from(0, 0.9),
        integer_key("limit", "Use only so many images, evenly from the list; null: all.")
            .from(1)
            .in("samples")}},
      make,
      {"flip", "random_resized_crop", "brightness", "contrast", "saturation", "hue"}};
}

}  // namespace autotrain
