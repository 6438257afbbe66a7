#include "data/detection_dataset.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "autotrain/error.h"
#include "base/random.h"
#include "base/text.h"
#include "data/box_placement.h"
#include "data/class_files.h"
#include "data/colour.h"
#include "data/file_sequence.h"
#include "data/placement.h"
#include "data/yolo_files.h"

namespace autotrain {
namespace {

constexpr int64_t kPlanes = 3;  // red, green, blue
constexpr double kNoBox = -1;   // class of the rows that fill a sample up
constexpr int64_t kColumns = 5, kLongColumns = 12;
constexpr int64_t kTilesOfAMosaic = 4;
constexpr int64_t kBlended = 2;

// [n, rows or the most boxes of a sample but at least 1, columns].
torch::Tensor collated(const std::vector<SampleBoxes>& samples, const DetectionDataset::Options& o) {
  const ImageSize& size = o.size;
  const bool long_rows = o.long_targets;
  auto most = static_cast<size_t>(o.rows.value_or(1));
  for (const SampleBoxes& sample : samples) most = std::max(most, sample.boxes.size());
  const auto n = static_cast<int64_t>(samples.size());
  torch::Tensor targets =
      torch::empty({n, static_cast<int64_t>(most), long_rows ? kLongColumns : kColumns}, torch::kFloat32);
  auto* out = targets.mutable_data_ptr<float>();
  const auto height = static_cast<double>(size.height), width = static_cast<double>(size.width);
  for (const auto& [boxes, scale, place] : samples) {
    const double left = static_cast<double>(place.left), top = static_cast<double>(place.top);
    const double right = left + static_cast<double>(place.width);
    const double bottom = top + static_cast<double>(place.height);
    for (size_t i = 0; i < most; ++i) {
      const bool there = i < boxes.size();
      const LabelledBox box = there ? boxes[i] : LabelledBox{};
      for (const double number : {there ? static_cast<double>(box.category) : kNoBox, box.centre_x,
                                  box.centre_y, box.width, box.height})
        *out++ = static_cast<float>(number);
      if (!long_rows) continue;
      const double area = box.area > 0 ? box.area : box.width * width * box.height * height * scale;
      for (const double number :
           {box.crowd ? 1.0 : 0.0, area, scale, left / width, top / height, right / width, bottom / height})
        *out++ = static_cast<float>(number);
    }
  }
  return targets;
}

}  // namespace

// One of the images that make a sample.
struct DetectionDataset::Tile {
  int64_t index;
  std::optional<Box> box;  // that it covers; without one the whole image fits in, at its aspect ratio
  double place = 0.5;      // which part of the image covers the box
};

struct DetectionDataset::Layer {
  int64_t own = 0;  // the sample that it is a part of
  std::vector<Tile> tiles;
  std::optional<Warp> warp;
};

// Everything random about a sample.
struct DetectionDataset::Scene {
  std::vector<Layer> layers;  // one, or two that are blended
  double share = 1;           // of the first
  bool mirrored = false;
  ColourChange colours;
};

DetectionDataset::DetectionDataset(LabelledImages images, Options options)
    : all_(std::move(images)), o_(std::move(options)) {
  check_rows();
  if (all_.faulty.empty()) return;
  for (int64_t i = 0; i < size(); ++i)
    if (!all_.faulty.contains(i)) faultless_.push_back(i);
}

void DetectionDataset::check_rows() const {
  if (!o_.rows || most_objects() <= *o_.rows) return;
  const bool of_several = most_objects() > all_.boxes.most();
  const std::vector<int32_t>& counts = all_.summary.boxes_of_images;
  const bool listed = all_.folder == all_.folder.root_path() && !counts.empty();  // images of several folders
  throw Error(ExitCode::kBadData,
              listed ? path(std::ranges::max_element(counts) - counts.begin()) : all_.folder.string(),
              cat("may give a sample of ", most_objects(), " boxes",
                  of_several ? cat(", for an image has ", all_.boxes.most(),
                                   ", and mosaic and mix_up put several together")
                             : "",
                  "; the key boxes gives it ", *o_.rows, " rows"),
              cat("set boxes: ", most_objects(), ", and export the model for as many"));
}

void DetectionDataset::forget_boxes() {
  all_.boxes = {};
  for (int64_t i = 0; i < size(); ++i) all_.boxes.add({});
  all_.faulty.clear();
  faultless_.clear();
}

ImageList DetectionDataset::list() const {
  return {.count = size(), .path = [this](int64_t i) { return path(i); }, .reading = o_.reading};
}

ImageSize DetectionDataset::file_size(int64_t index) const {
  const std::string name = path(index);
  return read_image_size(FileSequence({{name, held_.content(index)}}).next(name), name, o_.reading.upright);
}

ImageSize DetectionDataset::stated_size(int64_t index, const ImageSize& file) const {
  return all_.stated.empty() ? file : all_.stated[static_cast<size_t>(index)];
}

int64_t DetectionDataset::image_id(int64_t index) const {
  return all_.image_ids.empty() ? index : all_.image_ids[static_cast<size_t>(index)];
}

int64_t DetectionDataset::category_id(int64_t number) const {
  const std::vector<int64_t>& ids = all_.category_ids;
  if (ids.empty()) return number;
  if (number < std::ssize(ids)) return ids[static_cast<size_t>(number)];
  return std::ranges::max(ids) + 1 + number - std::ssize(ids);
}

std::unique_ptr<Dataset> DetectionDataset::unlabelled(const std::filesystem::path& path) const {
  LabelledImages images{.classes = all_.classes, .category_ids = all_.category_ids};
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    FoundImages found = find_images(path);
    warn_of_unread_images(path, found.left_out);
    images.folder = path;
    for (const std::string& name : found.names) images.names.add(name);
  } else {
    images.folder = path.parent_path();
    images.names.add(path.filename().string());
  }
  for (int64_t i = 0; i < images.names.size(); ++i) images.boxes.add({});
  Options options = o_;
  options.augment = {};
  return std::make_unique<DetectionDataset>(std::move(images), options);
}

DatasetInfo DetectionDataset::info() const {
  return {.kind = DatasetInfo::Kind::kImages,
          .input_shape = {kPlanes, o_.size.height, o_.size.width},
          .classes = o_.classes};
}

Batch DetectionDataset::get(c10::ArrayRef<int64_t> indices, const SampleRandom& random) const {
  const auto n = static_cast<int64_t>(indices.size());
  std::vector<Scene> scenes;
  for (size_t i = 0; i < indices.size(); ++i) {
    const bool closed = closed_from_ && random.position(i) >= *closed_from_;
    scenes.push_back(draw_scene(indices[i], Random(random.key(i)), closed));
  }
  Batch batch{torch::empty({n, kPlanes, o_.size.height, o_.size.width}, torch::kFloat32), {}, n};
  Planes planes{batch.inputs.mutable_data_ptr<float>(), kPlanes, o_.size};
  FileSequence files(files_of(scenes));
  std::vector<SampleBoxes> samples;
  for (size_t i = 0; i < scenes.size();
       ++i, planes.data += planes.channels * o_.size.height * o_.size.width) {
    samples.push_back(make_sample(scenes[i], cat("sample ", indices[i], ": "), files, planes));
  }
  batch.targets = collated(samples, o_);
  return batch;
}

// Each image that a sample is made of may be the most crowded one.
int64_t DetectionDataset::most_objects() const {
  return all_.boxes.most() * (o_.augment.mosaic > 0 ? kTilesOfAMosaic : 1) *
         (o_.augment.mix_up > 0 ? kBlended : 1);
}

Batch DetectionDataset::filled_up(Batch batch) const {
  const torch::Tensor& targets = batch.targets;
  const int64_t missing = most_objects() - targets.size(1);
  if (missing <= 0) return batch;
  torch::Tensor filler = torch::zeros({targets.size(0), missing, targets.size(2)}, targets.options());
  filler.select(2, 0).fill_(kNoBox);
  batch.targets = at::cat({targets, filler}, 1);
  return batch;
}

int64_t DetectionDataset::ram_bytes() const {
  if (!held_.empty()) return 0;
  return bytes_of_files(size(), [this](int64_t i) { return path(i); });
}

void DetectionDataset::preload(const PreloadWork& work) {
  held_.hold(
      size(), [this](int64_t i) { return path(i); }, work);
}

DetectionDataset::Scene DetectionDataset::draw_scene(int64_t index, Random random, bool closed) const {
  Scene scene;
  if (o_.augment.flip) scene.mirrored = (random.next() >> 63) != 0;
  scene.colours = draw_colour_change(o_.augment, random);
  scene.layers.push_back(draw_layer(index, random, closed));
  if (!closed && o_.augment.mix_up > 0 && random.uniform() < o_.augment.mix_up) {
    scene.share = draw_share(random);
    scene.layers.push_back(draw_layer(draw_partner(random), random, closed));
    scene.layers.back().own = index;
  }
  return scene;
}

DetectionDataset::Layer DetectionDataset::draw_layer(int64_t index, Random& random, bool closed) const {
  const bool mosaic = !closed && o_.augment.mosaic > 0 && random.uniform() < o_.augment.mosaic;
  std::vector<Tile> tiles =
      mosaic ? draw_mosaic(index, random) : std::vector<Tile>{{.index = index, .box = {}}};
  return {.own = index, .tiles = std::move(tiles), .warp = draw_warp(o_.augment, o_.size, random)};
}

// Another image of a sample, whose boxes are known: a fault is its own sample's alone.
int64_t DetectionDataset::draw_partner(Random& random) const {
  if (faultless_.empty()) return random.below(size());
  return faultless_[static_cast<size_t>(random.below(std::ssize(faultless_)))];
}

// Four images meet in a point of the middle; the sample's own is one of them, at a random corner.
std::vector<DetectionDataset::Tile> DetectionDataset::draw_mosaic(int64_t index, Random& random) const {
  const auto border = [&random](int64_t side) {
    return std::llround(static_cast<double>(side) * (0.3 + 0.4 * random.uniform()));
  };
  const int64_t y = border(o_.size.height), x = border(o_.size.width);
  const int64_t below = o_.size.height - y, right = o_.size.width - x;
  const std::array<Box, kTilesOfAMosaic> corners = {
      Box{0, 0, y, x}, {0, x, y, right}, {y, 0, below, x}, {y, x, below, right}};
  const auto own = static_cast<size_t>(random.below(kTilesOfAMosaic));
  std::vector<Tile> tiles;
  for (size_t i = 0; i < corners.size(); ++i) {
    const int64_t chosen = i == own ? index : draw_partner(random);
    tiles.push_back({chosen, corners[i], random.uniform()});
  }
  return tiles;
}

std::vector<SampleFile> DetectionDataset::files_of(const std::vector<Scene>& scenes) const {
  std::vector<SampleFile> files;
  for (const Scene& scene : scenes) {
    for (const Layer& layer : scene.layers) {
      for (const Tile& tile : layer.tiles) files.push_back({path(tile.index), held_.content(tile.index)});
    }
  }
  return files;
}

std::span<const LabelledBox> DetectionDataset::boxes_of(int64_t index, const std::string& sample) const {
  const auto faulty = all_.faulty.find(index);
  if (faulty == all_.faulty.end()) return all_.boxes.of(index);
  const Error& error = faulty->second;
  throw Error(error.code(), sample + error.where(), error.problem(), error.hint());
}

// Boxes follow an image that was scaled, not one that was turned or cut.
std::optional<Error> DetectionDataset::shape_fault(int64_t index, const ImageSize& size,
                                                   const std::string& where) const {
  if (all_.stated.empty()) return std::nullopt;
  constexpr double kNearly = 0.02;
  const ImageSize& stated = all_.stated[static_cast<size_t>(index)];
  const auto shape = [](const ImageSize& of) {
    return static_cast<double>(of.width) / static_cast<double>(of.height);
  };
  if (std::abs(shape(size) / shape(stated) - 1) <= kNearly) return std::nullopt;
  const bool turned = stated.height == size.width && stated.width == size.height;
  return Error(ExitCode::kBadData, where,
               cat("is ", size.width, " × ", size.height, ", and its annotations say ", stated.width, " × ",
                   stated.height),
               turned ? "correct its width and height; or set upright: false, where boxes were drawn on "
                        "images as they are stored"
                      : "take the images that were annotated");
}

// Draws one image of a sample and gives its boxes. The next of `files` is the tile's.
SampleBoxes DetectionDataset::draw_tile(const Tile& tile, const std::string& sample, FileSequence& files,
                                        const Planes& planes) const {
  const std::span<const LabelledBox> boxes = boxes_of(tile.index, sample);
  const std::string where = sample + path(tile.index);
  const std::span<const uint8_t> file = files.next(where);
  const ImageSize size = read_image_size(file, where, o_.reading.upright);
  if (const std::optional<Error> fault = shape_fault(tile.index, size, where)) throw *fault;
  const Placement placement = tile.box ? covering(size, *tile.box, tile.place) : letterboxed(size, o_.size);
  draw_image(file, where, size, placement, planes, o_.reading);
  const auto& [region, box] = placement;
  const ImageSize stated = stated_size(tile.index, size);
  const double resized =  // since it was annotated: areas are those of the annotations
      static_cast<double>(stated.height * stated.width) / static_cast<double>(size.height * size.width);
  const double scale = region.height * region.width / static_cast<double>(box.height * box.width);
  return {.boxes = place_boxes(boxes, size, placement, o_.size), .scale = scale * resized, .place = box};
}

// An image that cannot be read is a fault of its own sample: where such are left out, others that would have
// it beside theirs have their own once more.
SampleBoxes DetectionDataset::draw_tile_or_own(const Tile& tile, int64_t own, const std::string& sample,
                                               FileSequence& files, const Planes& planes) const {
  if (!o_.skips_bad || tile.index == own) return draw_tile(tile, sample, files, planes);
  try {
    return draw_tile(tile, sample, files, planes);
  } catch (const Error& error) {
    if (error.code() != ExitCode::kBadData) throw;
  }
  FileSequence again({{path(own), held_.content(own)}});
  return draw_tile({own, tile.box, tile.place}, sample, again, planes);
}

SampleBoxes DetectionDataset::make_layer(const Layer& layer, const std::string& sample, FileSequence& files,
                                         const Planes& planes) const {
  std::fill(planes.data, planes.row(planes.channels, 0), 0.0f);
  SampleBoxes all;
  for (const Tile& tile : layer.tiles) {
    const SampleBoxes drawn = draw_tile_or_own(tile, layer.own, sample, files, planes);
    all.boxes.insert(all.boxes.end(), drawn.boxes.begin(), drawn.boxes.end());
    all.scale = drawn.scale;
    all.place = drawn.place;
  }
  const Box whole{0, 0, planes.size.height, planes.size.width};
  if (layer.tiles.size() > 1) all.place = whole;
  if (!layer.warp) return all;
  all.place = whole;
  warp_planes(planes, *layer.warp);
  all.boxes = warp_boxes(all.boxes, *layer.warp, planes.size);
  return all;
}

SampleBoxes DetectionDataset::make_sample(const Scene& scene, const std::string& sample, FileSequence& files,
                                          const Planes& planes) const {
  static const Normalisation to_unit({0, 0, 0}, {1, 1, 1});
  SampleBoxes all = make_layer(scene.layers.front(), sample, files, planes);
  if (scene.layers.size() == kBlended) {
    std::vector<float> values(static_cast<size_t>(planes.channels * planes.size.height * planes.size.width));
    const Planes other{values.data(), planes.channels, planes.size};
    const SampleBoxes mixed_in = make_layer(scene.layers.back(), sample, files, other);
    all.boxes.insert(all.boxes.end(), mixed_in.boxes.begin(), mixed_in.boxes.end());
    blend(planes, other, scene.share);
  }
  change_colours(planes, scene.colours);
  to_unit.apply(planes);
  if (!scene.mirrored) return all;
  mirror(planes);
  all.place.left = planes.size.width - all.place.left - all.place.width;
  for (LabelledBox& box : all.boxes) box.centre_x = 1 - box.centre_x;
  return all;
}

DetectionDataset::Options detection_options(const DatasetRequest& request, int64_t classes) {
  const std::vector<int64_t> size = request.parameters.integers("size");
  const std::optional<int64_t> rows = request.parameters.optional_integer("boxes");
  return {.size = {size[0], size[1]},
          .classes = classes,
          .augment = request.augment,
          .reading = {.upright = request.parameters.flag("upright")},
          .long_targets = request.role != DataRole::kTraining && !rows,
          .rows = rows,
          .skips_bad = request.skips_bad};
}

}  // namespace autotrain
