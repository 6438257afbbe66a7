#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/enum_names.h"
#include "base/random.h"
#include "base/text.h"
#include "base/units.h"
#include "data/balance.h"
#include "data/class_files.h"
#include "data/colour.h"
#include "data/datasets.h"
#include "data/file_sequence.h"
#include "data/held_files.h"
#include "data/image_dataset.h"
#include "data/image_survey.h"
#include "data/names.h"
#include "data/placement.h"
#include "data/shared_images.h"
#include "data/wide_images.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

// Mean and deviation of ImageNet's training images, ÷ 255, as torchvision documents them for its models.
const std::vector<double> kImageNetMean = {0.485, 0.456, 0.406};
const std::vector<double> kImageNetDeviation = {0.229, 0.224, 0.225};

// Images decoded when they are asked for.
class ImageFolder final : public Dataset,
                          public Preloadable,
                          public Named,
                          public Classified,
                          public MadeOfImages {
 public:
  enum class Resize { kCrop, kStretch, kPad };

  struct Options {
    fs::path root;
    ImageSize size;
    int64_t channels = 3;
    Resize resize = Resize::kCrop;
    std::vector<double> mean, deviation;  // per channel
    AugmentRecipe augment = {};
    ImageReading reading = {};
  };

  ImageFolder(ClassFiles files, Options options)
      : files_(std::move(files)), o_(std::move(options)), normalisation_(o_.mean, o_.deviation) {}

  int64_t size() const override { return files_.names.size(); }

  DatasetInfo info() const override {
    return {.kind = DatasetInfo::Kind::kImages,
            .input_shape = {o_.channels, o_.size.height, o_.size.width},
            .classes = std::ssize(files_.class_names)};
  }

  bool names_samples() const override { return true; }
  std::string sample_name(int64_t index) const override { return std::string(files_.names[index]); }
  std::vector<std::string> class_names() const override { return files_.class_names; }
  std::vector<int64_t> classes_of_samples() const override {
    return {files_.classes.begin(), files_.classes.end()};
  }

  void set_bits(int64_t bits) { o_.reading.bits = bits; }
  const fs::path& root() const { return o_.root; }
  const ClassFiles& files() const { return files_; }
  const std::vector<double>& mean() const { return o_.mean; }
  const std::vector<double>& deviation() const { return o_.deviation; }
  const ImageReading& reading() const { return o_.reading; }
  ImageList list() const override {
    return {.count = size(), .path = [this](int64_t i) { return path(i); }, .reading = o_.reading};
  }

  std::string changes_of_files() const override {
    const int64_t looked_at = std::min<int64_t>(size(), 100);
    int64_t others = 0;
    std::vector<int64_t> first(static_cast<size_t>(looked_at));
    std::iota(first.begin(), first.end(), 0);
    FileSequence files(files_of(first));
    for (const int64_t i : first) {
      const std::string where = cat("sample ", i, ": ", path(i));
      if (!(read_image_size(files.next(where), where, o_.reading.upright) == o_.size)) ++others;
    }
    if (others == 0) return "";
    const std::string which = looked_at < size() ? cat("the first ", looked_at) : cat(looked_at);
    return cat(others, " of ", which, looked_at == 1 ? " image has" : " images have",
               " another size than the model's samples, and become ", o_.size.width, " × ", o_.size.height,
               " pixels: ", words_of_resize());
  }

  Batch get(c10::ArrayRef<int64_t> indices, const SampleRandom& random) const override {
    if (on_device_ && std::ranges::all_of(indices, [this](int64_t i) { return decoded(i); })) {
      return on_device_->get(indices, random);
    }
    const auto n = static_cast<int64_t>(indices.size());
    Batch batch{torch::empty({n, o_.channels, o_.size.height, o_.size.width}, torch::kFloat32),
                labels_of(indices), n};
    Planes planes = planes_at(batch.inputs.mutable_data_ptr<float>());
    FileSequence files(files_of(indices));
    for (size_t i = 0; i < indices.size(); ++i) {
      Random draws(random.key(i));
      draw_pixels(indices[i], files, draws, planes);
      finish(planes, draws);
      planes.data += sample_size();
    }
    return batch;
  }

  // Decoded images are held where every epoch sees the same part of them, else the files are.
  int64_t ram_bytes() const override {
    if (on_device_ || !decoded_.empty() || !held_.empty()) return 0;
    if (alike()) return size() * sample_size();
    return bytes_of_files(size(), [this](int64_t i) { return path(i); });
  }
  bool spares_decoding() const override { return alike(); }
  int64_t device_bytes() const override {
    const AugmentRecipe& a = o_.augment;
    const bool coloured = a.brightness > 0 || a.contrast > 0 || a.saturation > 0 || a.hue > 0;
    return alike() && !coloured ? size() * sample_size() : 0;
  }

  void preload(const PreloadWork& work) override {
    if (!alike())
      return held_.hold(
          size(), [this](int64_t i) { return path(i); }, work);
    pixels_ = torch::empty({size(), o_.channels, o_.size.height, o_.size.width},
                           torch::TensorOptions().dtype(torch::kUInt8).device(work.device));
    decoded_.assign(static_cast<size_t>(size()), 0);
    const bool here = work.device.is_cpu();
    const int64_t at_once = here ? size() : std::max<int64_t>(1, kStagedBytes / sample_size());
    for (int64_t first = 0; first < size(); first += at_once) {
      hold_decoded(first, pixels_.slice(0, first, std::min(first + at_once, size())), work);
    }
    if (!here) make_on_device();
  }

 private:
  const char* words_of_resize() const {
    switch (o_.resize) {
      case Resize::kCrop: return "the largest middle part of that shape, resized";
      case Resize::kStretch: return "all of it, stretched to that shape";
      case Resize::kPad: break;
    }
    return "all of it, in shape, on black";
  }

  int64_t sample_size() const { return o_.channels * o_.size.height * o_.size.width; }
  Planes planes_at(float* data) const { return {data, o_.channels, o_.size}; }
  std::string path(int64_t index) const { return (o_.root / files_.names[index]).string(); }
  bool decoded(int64_t index) const { return !decoded_.empty() && decoded_[static_cast<size_t>(index)] != 0; }

  // Whether every epoch sees the same pixels, but for mirroring and colours.
  bool alike() const { return !o_.augment.random_resized_crop; }

  // [n] int64; undefined where files have no classes.
  torch::Tensor labels_of(c10::ArrayRef<int64_t> indices) const {
    if (files_.class_names.empty()) return {};
    torch::Tensor labels = torch::empty({static_cast<int64_t>(indices.size())}, torch::kInt64);
    auto* out = labels.mutable_data_ptr<int64_t>();
    for (const int64_t index : indices) *out++ = files_.classes[static_cast<size_t>(index)];
    return labels;
  }

  // Those that must be decoded.
  std::vector<SampleFile> files_of(c10::ArrayRef<int64_t> indices) const {
    std::vector<SampleFile> all;
    for (const int64_t index : indices) {
      if (on_device_ || !decoded(index)) all.push_back({path(index), held_.content(index)});
    }
    return all;
  }

  static constexpr int64_t kStagedBytes = 64 * kMiB;  // that are in main memory on their way to a GPU

  // The samples from `first` on, as many as `pixels` has.
  void hold_decoded(int64_t first, const torch::Tensor& pixels, PreloadWork work) {
    const torch::Tensor here = pixels.is_cpu() ? pixels : torch::empty_like(pixels, torch::kCPU);
    auto* const to = here.mutable_data_ptr<uint8_t>();
    work.progress = [&, tell = std::move(work.progress)](int64_t done, int64_t) {
      tell(first + done, size());
    };
    visit_all(here.size(0), work, [&](int64_t i) { hold_decoded(first + i, to + i * sample_size()); });
    if (!pixels.is_cpu()) pixels.copy_(here);
  }

  void hold_decoded(int64_t index, uint8_t* to) {
    std::vector<float> values(static_cast<size_t>(sample_size()));
    Random unused(0);
    FileSequence file({{path(index)}});
    try {
      draw_pixels(index, file, unused, planes_at(values.data()));
    } catch (const Error&) {
      return;  // whoever asks for this sample is told
    }
    std::ranges::copy(values, to);
    decoded_[static_cast<size_t>(index)] = 1;
  }

  void make_on_device() {
    ImageDataset::Content content{
        .images = std::exchange(pixels_, {}),
        .labels = files_.class_names.empty() ? torch::Tensor() : torch::tensor(files_.classes, torch::kInt64),
        .classes = std::ssize(files_.class_names),
        .mean = o_.mean,
        .deviation = o_.deviation};
    auto images = std::make_unique<ImageDataset>(std::move(content), AugmentRecipe{.flip = o_.augment.flip});
    on_device_ = std::move(images);
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

  // Pixels as whole numbers in [0, 255]. The sample's file is the next of `files`, unless it is held decoded.
  void draw_pixels(int64_t index, FileSequence& files, Random& random, const Planes& planes) const {
    if (!on_device_ && decoded(index)) {
      const uint8_t* const held = pixels_.const_data_ptr<uint8_t>() + index * sample_size();
      std::copy(held, held + sample_size(), planes.data);
      return;
    }
    const std::string where = cat("sample ", index, ": ", path(index));
    const std::span<const uint8_t> file = files.next(where);
    const ImageSize size = read_image_size(file, where, o_.reading.upright);
    if (o_.resize == Resize::kPad) std::fill(planes.data, planes.row(planes.channels, 0), 0.0f);
    draw_image(file, where, size, place(size, random), planes, o_.reading);
  }

  void finish(const Planes& planes, Random& random) const {
    const bool mirrored = o_.augment.flip && (random.next() >> 63) != 0;
    change_colours(planes, draw_colour_change(o_.augment, random));
    normalisation_.apply(planes);
    if (mirrored) mirror(planes);
  }

  ClassFiles files_;
  Options o_;
  Normalisation normalisation_;

  // After preloading:
  HeldFiles held_;                           // files, or
  torch::Tensor pixels_;                     // [N, C, H, W] bytes, before augmentation
  std::vector<uint8_t> decoded_;             // whether each could be decoded; bytes, since threads write it
  std::unique_ptr<ImageDataset> on_device_;  // has the pixels instead
};

constexpr auto enum_names(ImageFolder::Resize) {
  using R = ImageFolder::Resize;
  return std::array{EnumName<R>{R::kCrop, "crop"}, EnumName<R>{R::kStretch, "stretch"},
                    EnumName<R>{R::kPad, "pad"}};
}

// A mean of pixels that lie from 0 to 1 is no larger, and a deviation that divides them by much leaves
// nothing.
void check_scale(const std::string& key, const std::vector<double>& numbers) {
  const double most = key == "mean" ? 1 : 5;
  if (std::ranges::max(numbers) <= most) return;
  std::vector<std::string> divided;
  for (const double number : numbers) divided.push_back(brief(number / 255, 4));
  throw Error(ExitCode::kBadRecipe, cat("image_folder: ", key),
              cat("has ", brief(std::ranges::max(numbers)),
                  ", as for pixels from 0 to 255; pixels are divided by 255 before"),
              cat("set ", key, ": [", join(divided, ", "), "]"));
}

// One number for each channel.
std::vector<double> per_channel(const Parameters& p, const char* key, const std::vector<double>& colours) {
  const auto channels = static_cast<size_t>(p.integer("channels"));
  std::vector<double> numbers = p.reals(key);
  if (numbers.empty()) return channels == 3 ? colours : std::vector<double>{0.5};
  check_scale(key, numbers);
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

// How the samples of a recipe's folder are made from its files.
ImageFolder::Options options_of(const Parameters& p, const fs::path& root, const AugmentRecipe& augment) {
  const std::vector<int64_t> size = p.integers("size");
  check_channels(augment, p.integer("channels"));
  return {.root = root,
          .size = {size[0], size[1]},
          .channels = p.integer("channels"),
          .resize = *parse_enum<ImageFolder::Resize>(p.text("resize")),
          .mean = per_channel(p, "mean", kImageNetMean),
          .deviation = per_channel(p, "deviation", kImageNetDeviation),
          .augment = augment,
          .reading = {.alpha = *parse_enum<AlphaUse>(p.text("alpha")),
                      .upright = p.flag("upright"),
                      .bits = p.optional_integer("bits").value_or(16)}};
}

// How files become samples like those of images that are held as bytes.
ImageFolder::Options options_like(const ImageDataset& images, const fs::path& root) {
  const std::vector<int64_t> shape = images.info().input_shape;
  if (shape[0] != 1 && shape[0] != 3) {
    throw Error(ExitCode::kBadRecipe, root.string(),
                cat("files have 1 or 3 channels; the run's images have ", shape[0]),
                "name data of the run's own kind: --set data.validation.…");
  }
  const auto each = [&](const std::vector<double>& numbers) {
    return std::vector<double>(static_cast<size_t>(shape[0]), numbers.front());
  };
  const bool all = images.mean().size() == 1;  // channels have one number between them
  return {.root = root,
          .size = {shape[1], shape[2]},
          .channels = shape[0],
          .mean = all ? each(images.mean()) : images.mean(),
          .deviation = all ? each(images.deviation()) : images.deviation()};
}

fs::path folder_of(const fs::path& path) {
  return fs::is_directory(path) ? path : path.parent_path();
}

std::unique_ptr<Dataset> make_unlabelled_images(const fs::path& path, ImageFolder::Options options) {
  return std::make_unique<ImageFolder>(find_files_without_classes(path), std::move(options));
}

std::unique_ptr<Dataset> make_unlabelled_like_folder(const UnlabelledRequest& request) {
  ImageFolder::Options options = options_of(request.parameters, folder_of(request.path), {});
  if (const auto* const like = dynamic_cast<const ImageFolder*>(&request.like))
    options.reading = like->reading();
  return make_unlabelled_images(request.path, std::move(options));
}

// Validation numbers its classes as the training data do, unless it says otherwise.
ClassSource class_source(const DatasetRequest& request) {
  const std::string own = request.parameters.text("classes_from");
  if (request.training == nullptr) return {own, "classes_from"};
  const std::string named = request.training->text("classes_from");
  const std::string training = named.empty() ? request.training->text("root") : named;
  if (training.empty()) return {own, "classes_from"};
  if (!own.empty() && own != training) check_same_classes(own, training);
  return {own.empty() ? training : own, "the training data"};
}

// The bits that are used of 16, which the training data's files say for all of a run's: values have one
// meaning in them. Reads nothing more where there are no such images.
int64_t settled_bits(const DatasetRequest& request, const ImageFolder& folder) {
  const Parameters& p = request.training != nullptr ? *request.training : request.parameters;
  if (const auto typed = request.parameters.optional_integer("bits")) return *typed;
  if (const auto typed = p.optional_integer("bits")) return *typed;
  const ImageList own = folder.list();
  if (!any_wide_image(own.count, own.path)) return 16;
  const fs::path root = p.text("root");
  const FileNames names = list_class_images(root);
  const BitsInUse use = bits_in_use(names.size(), [&](int64_t i) { return (root / names[i]).string(); });
  if (use.images > 0 && use.bits < 16) {
    log::info("data", cat(root.string(), ": images of 16 bits use ", use.bits, ", since ", use.largest,
                          " is the largest value in ", use.images, " of them: ", (1 << use.bits) - 1,
                          " becomes 255; bits: 16 has it otherwise"));
  }
  return use.bits;
}

std::unique_ptr<Dataset> make_image_folder(const DatasetRequest& request) {
  const Parameters& p = request.parameters;
  const fs::path root = p.text("root");
  if (root.empty()) throw Error(ExitCode::kBadRecipe, "image_folder: root", "is not set", "name a folder");
  ImageFolder::Options options = options_of(p, root, request.augment);
  const Selection selection{.split = *parse_enum<Split>(p.text("split")),
                            .validation_share = p.real("validation_share"),
                            .limit = p.optional_integer("limit")};
  auto folder = std::make_unique<ImageFolder>(find_class_files(root, class_source(request), selection),
                                              std::move(options));
  folder->set_bits(settled_bits(request, *folder));
  return folder;
}

void tell_classes(const ClassFiles& files, DataLook& look) {
  LookBars bars{.title = "images by class", .labels = files.class_names};
  bars.counts.resize(files.class_names.size());
  for (const int32_t number : files.classes) ++bars.counts[static_cast<size_t>(number)];
  LookTable table{.title = "classes", .header = {"number", "class", "images", "share"}};
  std::vector<std::string> without;
  for (size_t i = 0; i < bars.counts.size(); ++i) {
    table.rows.push_back({static_cast<int64_t>(i), files.class_names[i], bars.counts[i],
                          static_cast<double>(bars.counts[i]) / static_cast<double>(files.classes.size())});
    if (bars.counts[i] == 0) without.push_back(files.class_names[i]);
  }
  if (!without.empty()) look.facts.emplace_back("classes without an image", some_of(without));
  look.tables.push_back(std::move(table));
  look.bars.push_back(std::move(bars));
}

// Files with the same bytes: in two classes, or in training and validation.
void doubt_copies(const ImageFolder& folder, const std::vector<SeenImage>& seen, const ImageFolder* training,
                  const LookOptions& options, DataLook& look) {
  const ClassFiles& files = folder.files();
  const ImageList list = folder.list();
  std::unordered_map<uint64_t, int64_t> first;
  for (const SeenImage& image : seen) {
    const auto [at, fresh] = first.try_emplace(image.hash, image.index);
    if (fresh) continue;
    const bool same_class =
        files.classes[static_cast<size_t>(at->second)] == files.classes[static_cast<size_t>(image.index)];
    look.doubt(same_class ? "images that are there twice" : "images that are in two classes",
               same_class ? "remove the copies" : "leave each in the class that it shows",
               cat(list.path(image.index), " = ", list.path(at->second)));
  }
  if (training == nullptr) return;
  const ImageList theirs = training->list();
  std::unordered_map<uint64_t, int64_t> trained_on;
  const std::vector<uint64_t> hashes = hash_files(theirs, options);
  for (size_t i = 0; i < hashes.size(); ++i) {
    if (hashes[i] != 0) trained_on.try_emplace(hashes[i], static_cast<int64_t>(i));
  }
  for (const SeenImage& image : seen) {
    const auto at = trained_on.find(image.hash);
    if (image.hash == 0 || at == trained_on.end()) continue;
    look.doubt("images that are in the training data too", "remove them from one of the two",
               cat(list.path(image.index), " = ", theirs.path(at->second)));
  }
}

std::string list_in_words(const std::vector<double>& numbers) {
  std::vector<std::string> words;
  for (const double number : numbers) words.push_back(brief(number, 4));
  return cat("[", join(words, ", "), "]");
}

// Pixels that become other numbers than the training images' do.
void doubt_normalisation(const ImageFolder& own, const ImageFolder& training, DataLook& look) {
  if (own.mean() == training.mean() && own.deviation() == training.deviation()) return;
  look.doubt(
      cat(word_of(look.role), " images that are normalised unlike the training images"),
      cat("leave mean and deviation out of ", key_of(look.role), ": they are the training data's then"),
      cat(own.root().string(), ": mean ", list_in_words(own.mean()), ", deviation ",
          list_in_words(own.deviation()), "; ", training.root().string(), ": mean ",
          list_in_words(training.mean()), ", deviation ", list_in_words(training.deviation())));
}

// Images by class and name, but for the numbers at their ends: those of a recording are named so. Images of
// which the name is a number have none.
SampleGroups recordings_of(const FileNames& names) {
  SampleGroups groups;
  for (int64_t i = 0; i < names.size(); ++i) {
    std::string_view name = names[i].substr(0, names[i].rfind('.'));
    const size_t end = name.size();
    while (!name.empty() && is_digit(name.back())) name.remove_suffix(1);
    if (name.size() < end && !name.ends_with('/')) ++groups[std::string(name)];
  }
  return groups;
}

// Images of one recording are nearly alike: on both sides of a split they show what was learned by heart.
void doubt_recordings(const ImageFolder& own, const ImageFolder& training, DataLook& look) {
  constexpr int64_t kFewImages = 4, kFewRecordings = 5;  // in the mean: of a recording, of a class
  const SampleGroups groups = recordings_of(own.files().names),
                     theirs = recordings_of(training.files().names);
  const auto classes = std::ssize(training.files().class_names), recordings = std::ssize(theirs);
  if (recordings < kFewRecordings * classes || samples_of(theirs) < kFewImages * recordings) return;
  if (2 * samples_of(groups) <= own.size()) return;
  const int64_t shared = samples_of_known_groups(groups, theirs);
  if (shared == 0) return;
  const auto one =
      std::ranges::find_if(groups, [&](const auto& group) { return theirs.contains(group.first); });
  look.doubt(
      cat(word_of(look.role), " images whose names say that training images may be of the same recordings"),
      "if they are, divide recordings, not images, into folders for training and validation",
      cat(own.root().string(), ": ", format_count(shared), " of ", format_count(own.size()),
          " images, such as ", one->first, "…"));
}

void look_at_folder(const LookRequest& request, DataLook& look) {
  const auto* const folder = dynamic_cast<const ImageFolder*>(&request.data);
  if (folder == nullptr) return;
  const ClassFiles& files = folder->files();
  const std::vector<int64_t> shape = folder->info().input_shape;
  look.what = cat("image_folder ", request.made_from.parameters.text("root"), ": ",
                  format_count(folder->size()), " images in ", files.class_names.size(), " classes, made ",
                  shape[1], " × ", shape[2], shape[0] == 1 ? " in grey" : " in colours");
  const ImageList list = folder->list();
  const std::vector<SeenImage> seen = see_images(list, request.options);
  tell_images(seen, list, request.options, look);
  tell_classes(files, look);
  const auto* const training = dynamic_cast<const ImageFolder*>(request.training);
  if (training != nullptr) doubt_normalisation(*folder, *training, look);
  if (training != nullptr) doubt_recordings(*folder, *training, look);
  if (const std::string split = request.made_from.parameters.text("split");
      training != nullptr && split != "all" && !are_same(folder->root(), training->root()))
    doubt_part_of_others(folder->root().string(), split, look);
  if (training != nullptr && request.options.depth == LookDepth::kStart) {  // a whole look compares all files
    doubt_shared_images(seen, {folder->root(), files.names}, {training->root(), training->files().names},
                        request.options, look);
  }
  if (!files.left_out.empty()) look.facts.emplace_back("files left out", words_of_endings(files.left_out));
  if (request.options.depth != LookDepth::kWhole) return;
  for (const std::string& place : files.mostly_left_out)
    look.doubt("classes of which many files are left out", "convert them to PNG or JPEG", place);
  doubt_copies(*folder, seen, training, request.options, look);
}

}  // namespace

std::unique_ptr<Dataset> make_images_like_bytes(const UnlabelledRequest& request) {
  const auto* const images = dynamic_cast<const ImageDataset*>(&request.like);
  if (images == nullptr) {
    throw Error(ExitCode::kBadRecipe, request.path.string(), "the run's samples are no images of bytes",
                "name data of the run's own kind: --set data.validation.…");
  }
  return make_unlabelled_images(request.path, options_like(*images, folder_of(request.path)));
}

DatasetRow image_folder_row() {
  return {
      {"image_folder",
       "Image files in one folder for each class, decoded as they are needed.",
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
                 "missing; null: that of the training data, whose own is root."),
        word_key("alpha",
                 "What becomes of transparency that differs within an image: laid on white, on black, or "
                 "dropped; auto: on white, but on black where all that is seen is nearly white.",
                 choices_of<AlphaUse>(), "auto"),
        bool_key("upright", "Turn images as their metadata say (EXIF).", true),
        integer_key("bits",
                    "Of 16 bits, those that are used: the largest value of so many becomes 255; null: what "
                    "the largest value in some of the training images needs.")
            .from(8, 16)
            .in("bits"),
        word_key("split", "Which files: train and validation divide them by a hash of class and file name.",
                 choices_of<Split>(), "all"),
        real_key("validation_share", "The share of files that fall to split: validation.", 0.1).from(0, 0.9),
        integer_key("limit", "Use only so many images, evenly from the list; null: all.")
            .from(1)
            .in("samples")}},
      make_image_folder,
      {"flip", "random_resized_crop", "brightness", "contrast", "saturation", "hue"},
      make_unlabelled_like_folder,
      "a folder of images, or one image",
      look_at_folder,
      {"size", "resize", "channels", "mean", "deviation", "alpha", "upright"}};
}

}  // namespace autotrain
