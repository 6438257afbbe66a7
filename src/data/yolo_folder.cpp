#include <algorithm>
#include <array>
#include <optional>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/enum_names.h"
#include "base/random.h"
#include "base/text.h"
#include "base/units.h"
#include "data/colour.h"
#include "data/datasets.h"
#include "data/file_sequence.h"
#include "data/held_files.h"
#include "data/image_survey.h"
#include "data/names.h"
#include "data/placement.h"
#include "data/yolo_check.h"
#include "data/yolo_files.h"
#include "data/yolo_labels.h"

namespace autotrain {
namespace {

constexpr int64_t kNumbersOfABox = 5;  // class, centre x, centre y, width, height
constexpr double kNoBox = -1;          // class of the rows that fill a sample up

// Images with boxes, put together when they are asked for. They are alike in cost: boxes take little beside
// pixels.
class YoloFolder final : public Dataset, public Preloadable, public Named {
 public:
  struct Options {
    ImageSize size;
    LabelReading labels = {};
    std::vector<std::string> names = {};  // of classes; empty: they are numbers only
    AugmentRecipe augment;
    ImageReading images = {};
  };

  YoloFolder(LabelledFiles files, Options options) : files_(std::move(files)), o_(std::move(options)) {}

  /// Reads all labels. @throws Error(kBadData) with the faults of all kinds, unless they are to be skipped.
  void check_labels(bool skips_bad) {
    summary_ = summarise_labels(files_, o_.labels, o_.size);
    if (!summary_.doubts.empty())
      log::warn("data", cat(files_.labels.string(), ": ", LabelSummary::words_of(summary_.doubts)));
    if (summary_.faults.empty()) return;
    int64_t faults = 0;
    for (const Doubt& kind : summary_.faults) faults += kind.count;
    const std::string what = cat(faults, faults == 1 ? " fault in " : " faults in ", summary_.faulty_files,
                                 " of ", size(), " label files: ", LabelSummary::words_of(summary_.faults));
    if (skips_bad) return log::warn("data", cat(files_.labels.string(), ": ", what));
    std::vector<std::string> cures;
    for (const Doubt& kind : summary_.faults) {
      if (std::ranges::find(cures, kind.cure) == cures.end()) cures.push_back(kind.cure);
    }
    throw Error(ExitCode::kBadData, files_.labels.string(), what, join(cures, "; "));
  }

  const LabelledFiles& files() const { return files_; }
  const Options& options() const { return o_; }
  const LabelSummary& summary() const { return summary_; }
  ImageList list() const {
    return {.count = size(), .path = [this](int64_t i) { return image_path(i); }, .reading = o_.images};
  }

  int64_t size() const override { return files_.names.size(); }

  DatasetInfo info() const override {
    return {.kind = DatasetInfo::Kind::kImages,
            .input_shape = {kChannels, o_.size.height, o_.size.width},
            .classes = o_.labels.classes};
  }

  bool names_samples() const override { return true; }
  std::string sample_name(int64_t index) const override { return std::string(files_.names[index]); }

  Batch get(c10::ArrayRef<int64_t> indices, const SampleRandom& random) const override {
    const auto n = static_cast<int64_t>(indices.size());
    std::vector<Scene> scenes;
    for (size_t i = 0; i < indices.size(); ++i)
      scenes.push_back(draw_scene(indices[i], Random(random.key(i))));
    Batch batch{torch::empty({n, kChannels, o_.size.height, o_.size.width}, torch::kFloat32), {}, n};
    Planes planes{batch.inputs.mutable_data_ptr<float>(), kChannels, o_.size};
    FileSequence images(images_of(scenes));
    std::vector<std::vector<LabelledBox>> boxes;
    for (size_t i = 0; i < scenes.size();
         ++i, planes.data += planes.channels * o_.size.height * o_.size.width) {
      boxes.push_back(make_sample(scenes[i], cat("sample ", indices[i], ": "), images, planes));
    }
    batch.targets = collated(boxes);
    return batch;
  }

  int64_t ram_bytes() const override {
    if (!held_.empty()) return 0;
    return bytes_of_files(2 * size(), [this](int64_t i) { return path(i); });
  }
  void preload(const PreloadWork& work) override {
    held_.hold(
        2 * size(), [this](int64_t i) { return path(i); }, work);
  }

 private:
  static constexpr int64_t kChannels = 3;

  // One of the images that make a sample.
  struct Tile {
    int64_t index;
    std::optional<Box> box;  // that it covers; without one the whole image fits in, at its aspect ratio
    double place = 0.5;      // which part of the image covers the box
  };

  // Everything random about a sample.
  struct Scene {
    std::vector<Tile> tiles;
    bool mirrored = false;
    ColourChange colours;
  };

  Scene draw_scene(int64_t index, Random random) const {
    Scene scene;
    if (o_.augment.flip) scene.mirrored = (random.next() >> 63) != 0;
    scene.colours = draw_colour_change(o_.augment, random);
    if (o_.augment.mosaic > 0 && random.uniform() < o_.augment.mosaic) {
      scene.tiles = draw_mosaic(index, random);
    } else {
      scene.tiles = {{.index = index, .box = {}}};
    }
    return scene;
  }

  // Four images meet in a point of the middle; the sample's own is one of them, at a random corner.
  std::vector<Tile> draw_mosaic(int64_t index, Random& random) const {
    const auto border = [&random](int64_t side) {
      return std::llround(static_cast<double>(side) * (0.3 + 0.4 * random.uniform()));
    };
    const int64_t y = border(o_.size.height), x = border(o_.size.width);
    const int64_t below = o_.size.height - y, right = o_.size.width - x;
    const std::array<Box, 4> corners = {
        Box{0, 0, y, x}, {0, x, y, right}, {y, 0, below, x}, {y, x, below, right}};
    const auto own = static_cast<size_t>(random.below(4));
    std::vector<Tile> tiles;
    for (size_t i = 0; i < corners.size(); ++i) {
      const int64_t chosen = i == own ? index : random.below(size());
      tiles.push_back({chosen, corners[i], random.uniform()});
    }
    return tiles;
  }

  std::string image_path(int64_t index) const { return (files_.images / files_.names[index]).string(); }

  // Files are numbered together: the images first, then the labels.
  std::string path(int64_t file) const {
    return file < size() ? image_path(file) : files_.label_path(file - size()).string();
  }
  SampleFile file(int64_t file) const { return {path(file), held_.content(file)}; }

  std::vector<SampleFile> images_of(const std::vector<Scene>& scenes) const {
    std::vector<SampleFile> images;
    for (const Scene& scene : scenes) {
      for (const Tile& tile : scene.tiles) images.push_back(file(tile.index));
    }
    return images;
  }

  std::vector<LabelledBox> read_labels(int64_t index, const std::string& sample) const {
    if (!files_.labelled[static_cast<size_t>(index)]) return {};
    const SampleFile labels = file(size() + index);
    const std::string where = sample + labels.path;
    const std::span<const uint8_t> text = FileSequence({labels}).next(where);
    return parse_labels({reinterpret_cast<const char*>(text.data()), text.size()}, where, o_.labels);
  }

  // Draws one image of a sample and gives its boxes. The next file of `images` is the tile's.
  std::vector<LabelledBox> draw_tile(const Tile& tile, const std::string& sample, FileSequence& images,
                                     const Planes& planes) const {
    const std::vector<LabelledBox> boxes = read_labels(tile.index, sample);
    const std::string where = sample + image_path(tile.index);
    const std::span<const uint8_t> file = images.next(where);
    const ImageSize size = read_image_size(file, where, o_.images.upright);
    const Placement placement = tile.box ? covering(size, *tile.box, tile.place) : letterboxed(size, o_.size);
    draw_image(file, where, size, placement, planes, o_.images);
    return place_boxes(boxes, size, placement, o_.size);
  }

  std::vector<LabelledBox> make_sample(const Scene& scene, const std::string& sample, FileSequence& images,
                                       const Planes& planes) const {
    static const Normalisation to_unit({0, 0, 0}, {1, 1, 1});
    std::fill(planes.data, planes.row(planes.channels, 0), 0.0f);
    std::vector<LabelledBox> boxes;
    for (const Tile& tile : scene.tiles) {
      for (const LabelledBox& box : draw_tile(tile, sample, images, planes)) boxes.push_back(box);
    }
    change_colours(planes, scene.colours);
    to_unit.apply(planes);
    if (!scene.mirrored) return boxes;
    mirror(planes);
    for (LabelledBox& box : boxes) box.centre_x = 1 - box.centre_x;
    return boxes;
  }

  // [n, the most boxes of a sample but at least 1, 5].
  static torch::Tensor collated(const std::vector<std::vector<LabelledBox>>& boxes) {
    size_t most = 1;
    for (const auto& of_sample : boxes) most = std::max(most, of_sample.size());
    const auto n = static_cast<int64_t>(boxes.size());
    torch::Tensor targets = torch::empty({n, static_cast<int64_t>(most), kNumbersOfABox}, torch::kFloat32);
    auto* out = targets.mutable_data_ptr<float>();
    for (const auto& of_sample : boxes) {
      for (size_t i = 0; i < most; ++i) {
        const bool there = i < of_sample.size();
        const LabelledBox box = there ? of_sample[i] : LabelledBox{};
        for (const double number : {there ? static_cast<double>(box.category) : kNoBox, box.centre_x,
                                    box.centre_y, box.width, box.height}) {
          *out++ = static_cast<float>(number);
        }
      }
    }
    return targets;
  }

  LabelledFiles files_;
  Options o_;
  LabelSummary summary_;
  HeldFiles held_;  // after preloading
};

// Of a recipe's data set.
struct Classes {
  int64_t count = 0;  // 0: it does not say
  std::vector<std::string> names = {};
};

Classes stated_classes(const Parameters& p) {
  const std::optional<int64_t> typed = p.optional_integer("classes");
  const std::string path = p.text("names");
  if (path.empty()) return {typed.value_or(0)};
  Classes classes{.names = read_class_names(path)};
  classes.count = std::ssize(classes.names);
  if (!typed || *typed == classes.count) return classes;
  throw Error(ExitCode::kBadRecipe, "yolo: classes",
              cat("is ", *typed, ", and ", path, " has ", classes.count, " names"), "leave one of them out");
}

// Those of the training data, where these are other data: a class has one number in all of a run.
Classes classes_of(const DatasetRequest& request) {
  const Classes own = stated_classes(request.parameters);
  const Classes training = request.training != nullptr ? stated_classes(*request.training) : Classes{};
  if (own.count == 0 && training.count > 0) return training;
  if (own.count == 0) {
    throw Error(ExitCode::kBadRecipe, "yolo: classes", "is not set",
                "set classes, or names to a file of them");
  }
  const bool alike = own.names == training.names || own.names.empty() || training.names.empty();
  if (training.count == 0 || (own.count == training.count && alike)) return own;
  const auto words = [](const Classes& classes) {
    return classes.names.empty() ? cat(classes.count) : cat(classes.count, " (", some_of(classes.names), ")");
  };
  throw Error(ExitCode::kBadRecipe, own.names.empty() ? "yolo: classes" : "yolo: names",
              cat("has other classes, ", words(own), ", than the training data, ", words(training)),
              "leave it out: classes are those of the training data then");
}

std::unique_ptr<Dataset> make_yolo_folder(const DatasetRequest& request) {
  const Parameters& p = request.parameters;
  for (const char* const key : {"images", "labels"}) {
    if (p.text(key).empty())
      throw Error(ExitCode::kBadRecipe, cat("yolo: ", key), "is not set", "name a folder");
  }
  const std::vector<int64_t> size = p.integers("size");
  Classes classes = classes_of(request);
  YoloFolder::Options options{
      .size = {size[0], size[1]},
      .labels = {.classes = classes.count, .longer_lines = *parse_enum<LongerLines>(p.text("longer_lines"))},
      .names = std::move(classes.names),
      .augment = request.augment,
      .images = {.upright = p.flag("upright")}};
  auto folder = std::make_unique<YoloFolder>(
      find_labelled_files(p.text("images"), p.text("labels"), p.optional_integer("limit")),
      std::move(options));
  folder->check_labels(request.skips_bad);
  return folder;
}

void tell_boxes(const YoloFolder& folder, DataLook& look) {
  const LabelSummary& labels = folder.summary();
  const std::vector<std::string>& names = folder.options().names;
  LookBars bars{.title = "boxes by class", .counts = labels.by_class};
  LookTable table{.title = "classes", .header = {"number", "class", "boxes", "share"}};
  const auto all = static_cast<double>(std::max<int64_t>(1, labels.boxes()));
  std::vector<std::string> empty;
  for (size_t i = 0; i < labels.by_class.size(); ++i) {
    bars.labels.push_back(names.empty() ? cat(i) : names[i]);
    const int64_t count = labels.by_class[i];
    table.rows.push_back(
        {static_cast<int64_t>(i), bars.labels.back(), count, static_cast<double>(count) / all});
    if (count == 0) empty.push_back(bars.labels.back());
  }
  if (!empty.empty()) look.facts.emplace_back("classes without a box", some_of(empty));
  look.tables.push_back(std::move(table));
  look.bars.push_back(std::move(bars));
  std::vector<int32_t> sorted = labels.boxes_of_images;
  std::ranges::sort(sorted);
  look.facts.emplace_back("boxes of an image", cat("least ", sorted.front(), ", median ",
                                                   sorted[sorted.size() / 2], ", most ", sorted.back()));
  const auto without = std::ranges::count(folder.files().labelled, false);
  look.facts.emplace_back("images without a box",
                          cat(std::ranges::count(sorted, 0), ": ", labels.empty_files,
                              " with an empty label file, ", without, " without one"));
}

void doubt_turned(const std::vector<SeenImage>& seen, const ImageList& list, DataLook& look) {
  if (!list.reading.upright) return;
  for (const SeenImage& image : seen) {
    if (image.facts.orientation == 1) continue;
    look.doubt("images that are stored turned, and are turned upright, as their boxes are taken to be",
               "look at some; set upright: false where boxes were drawn on images as they are stored",
               list.path(image.index));
  }
}

void look_at_boxes(const LookRequest& request, DataLook& look) {
  const auto* const folder = dynamic_cast<const YoloFolder*>(&request.data);
  if (folder == nullptr) return;
  const LabelSummary& labels = folder->summary();
  look.what =
      cat("yolo ", request.made_from.parameters.text("images"), ": ", format_count(folder->size()),
          " images with ", format_count(labels.boxes()), " boxes of ", labels.by_class.size(), " classes");
  tell_boxes(*folder, look);
  const ImageList list = folder->list();
  const std::vector<SeenImage> seen = see_images(list, request.options);
  tell_images(seen, list, request.options, look);
  doubt_turned(seen, list, look);
  if (request.options.depth != LookDepth::kWhole) return;  // said when it was opened
  look.doubts.insert(look.doubts.end(), labels.doubts.begin(), labels.doubts.end());
  look.doubts.insert(look.doubts.end(), labels.faults.begin(), labels.faults.end());
}

}  // namespace

DatasetRow yolo_row() {
  return {{"yolo",
           "Object detection in YOLO's format: images, and for each a text file with a line \"class cx cy w "
           "h\" for "
           "every box.",
           {text_key("images", "The folder of the image files."),
            text_key("labels", "The folder of the label files; an image without one has no boxes."),
            integer_key("classes", "Classes; null: as many as names has, or those of the training data.")
                .from(1, 1 << 20),
            text_key("names",
                     "A file with the name of a class on each line, or a YAML file with a list or map names; "
                     "null: classes counts them."),
            word_key("longer_lines",
                     "What is made of a label's line of more than five values: refuse; polygon: the box "
                     "around its corners; drop: what stands behind the fifth is left out.",
                     choices_of<LongerLines>(), "refuse"),
            bool_key("upright",
                     "Turn images as their metadata say (EXIF); boxes are taken to be of the upright image.",
                     true),
            list_key(KeyKind::kIntegerList, "size",
                     "[height, width] of a sample, in which images lie whole and in shape, on black.",
                     std::vector<int64_t>{416, 416})
                .from(8, 16384)
                .of_length(2)
                .in("pixels"),
            integer_key("limit", "Use only the first so many images; null: all.").from(1).in("samples")}},
          make_yolo_folder,
          {"flip", "brightness", "contrast", "saturation", "hue", "mosaic"},
          nullptr,
          "",
          look_at_boxes};
}

}  // namespace autotrain
