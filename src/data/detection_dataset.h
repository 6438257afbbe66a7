#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "autotrain/data.h"
#include "data/box_table.h"
#include "data/closing.h"
#include "data/crowded.h"
#include "data/datasets.h"
#include "data/file_names.h"
#include "data/file_sequence.h"
#include "data/held_files.h"
#include "data/image_survey.h"
#include "data/names.h"
#include "data/warp.h"
#include "data/yolo_check.h"

namespace autotrain {

/// What a detection set consists of, whatever format it is kept in.
struct LabelledImages {
  std::filesystem::path folder = {};       ///< that names are below
  FileNames names = {};                    ///< of the image files
  BoxTable boxes = {};                     ///< of each image
  std::vector<ImageSize> stated = {};      ///< of images, as their annotations say; empty: they do not
  std::map<int64_t, Error> faulty = {};    ///< images whose boxes cannot be read, and why
  std::vector<std::string> classes = {};   ///< names; empty: they are numbers only
  std::vector<int64_t> image_ids = {};     ///< as a file of annotations has them; empty: it has none
  std::vector<int64_t> category_ids = {};  ///< of classes; kNoCategoryId: it has none of its own
  LabelSummary summary = {};               ///< of all boxes
};

/// A sample's boxes, as parts of it.
struct SampleBoxes {
  std::vector<LabelledBox> boxes = {};
  double scale = 1;  ///< how many pixels of the image, as it was annotated, one of the sample is
  Box place = {};    ///< where the image lies in the sample; all of it, where it is of several or warped
};

/// Images with boxes, put together when they are asked for. They are alike in cost, for their pixels are;
/// what a loss makes of boxes takes memory with the most of a batch, which the planner tries.
class DetectionDataset final : public Dataset,
                               public Preloadable,
                               public Named,
                               public MadeOfImages,
                               public Crowded,
                               public Closing {
 public:
  struct Options {
    ImageSize size;
    int64_t classes = 0;
    AugmentRecipe augment;
    ImageReading reading = {};
    bool long_targets = false;         ///< with the columns that evaluations read
    std::optional<int64_t> rows = {};  ///< of targets, not fewer than `most_objects`; unset: as a batch needs
    bool skips_bad = false;            ///< samples that cannot be read are left out, by whoever asks for them
  };

  DetectionDataset(LabelledImages images, Options options);

  const LabelledImages& images() const { return all_; }
  const ImageSize& sample_size() const { return o_.size; }

  /// The size of an image's file, which is read, as it is turned. @throws Error(kBadData).
  ImageSize file_size(int64_t index) const;

  /// Its size as its annotations say, in whose pixels they are; that of the file where they do not.
  ImageSize stated_size(int64_t index, const ImageSize& file) const;

  /// Why its boxes do not go with an image of that size, as it is turned: its annotations say another shape.
  /// Unset where they go with it.
  std::optional<Error> shape_fault(int64_t index, const ImageSize& size, const std::string& where) const;

  /// The id that the file of annotations gives an image or a class; without such a file it is its number. A
  /// class beyond those of the annotations, as other data or a model may have, gets an id that none of them
  /// has.
  int64_t image_id(int64_t index) const;
  int64_t category_id(int64_t number) const;

  /// Other images as samples like these, without boxes.
  std::unique_ptr<Dataset> unlabelled(const std::filesystem::path& path) const;

  ImageList list() const override;

  int64_t size() const override { return all_.names.size(); }
  DatasetInfo info() const override;
  bool names_samples() const override { return true; }
  std::string sample_name(int64_t index) const override { return std::string(all_.names[index]); }
  std::vector<std::string> class_names() const override { return all_.classes; }

  /// inputs: [n, 3, H, W] float32 in [0, 1]. targets: [n, `rows` or the most boxes of a sample but at least
  /// 1, 5] float32: class, centre x, y, width, height as parts of the sample; class −1 fills up. Long ones
  /// have seven columns more: crowd, area in pixels of the image as it was annotated, how many of those a
  /// pixel of the sample is, and where the image lies in the sample: left, top, right, bottom as parts of it.
  Batch get(c10::ArrayRef<int64_t> indices, const SampleRandom& random) const override;

  int64_t most_objects() const override;
  Batch filled_up(Batch batch) const override;

  /// For predictions, which use none: samples are then without boxes, and no label is faulty.
  void forget_boxes();

  /// Then samples are of one image each: no mosaics, nothing mixed in.
  void close_from(int64_t position) override { closed_from_ = position; }

  int64_t ram_bytes() const override;
  void preload(const PreloadWork& work) override;

 private:
  struct Tile;
  struct Layer;
  struct Scene;

  Scene draw_scene(int64_t index, Random random, bool closed) const;
  Layer draw_layer(int64_t index, Random& random, bool closed) const;
  std::vector<Tile> draw_mosaic(int64_t index, Random& random) const;
  std::string path(int64_t index) const { return (all_.folder / all_.names[index]).string(); }
  std::vector<SampleFile> files_of(const std::vector<Scene>& scenes) const;
  std::span<const LabelledBox> boxes_of(int64_t index, const std::string& sample) const;
  SampleBoxes draw_tile(const Tile& tile, const std::string& sample, FileSequence& files,
                        const Planes& planes) const;
  SampleBoxes draw_tile_or_own(const Tile& tile, int64_t own, const std::string& sample, FileSequence& files,
                               const Planes& planes) const;
  SampleBoxes make_layer(const Layer& layer, const std::string& sample, FileSequence& files,
                         const Planes& planes) const;
  SampleBoxes make_sample(const Scene& scene, const std::string& sample, FileSequence& files,
                          const Planes& planes) const;

  int64_t draw_partner(Random& random) const;
  void check_rows() const;

  LabelledImages all_;
  Options o_;
  std::vector<int64_t> faultless_;      // images; empty: all are
  std::optional<int64_t> closed_from_;  // position in the stream
  HeldFiles held_;                      // after preloading
};

/// How a format makes its samples. @param request has the keys that all detection sets have.
DetectionDataset::Options detection_options(const DatasetRequest& request, int64_t classes);

/// What a format of detection sets brings.
struct DetectionFormat {
  std::string name;                           ///< "yolo"
  std::string sentence;                       ///< about it
  std::vector<KeySpec> keys;                  ///< beside those of all: size, upright, limit
  std::vector<std::string> as_training = {};  ///< those that are the training data's where they are left out
  std::function<std::unique_ptr<Dataset>(const DatasetRequest&)> make;
  std::function<std::string(const Parameters&)> from;  ///< which file or folder names the data
};

DatasetRow detection_row_of(DetectionFormat format);

}  // namespace autotrain
