#include "data/datasets.h"

#include <algorithm>
#include <optional>

#include "autotrain/error.h"
#include "base/text.h"
#include "base/units.h"
#include "data/bad_samples.h"
#include "data/balancing.h"
#include "data/image_survey.h"

namespace autotrain {

// Each is defined in a file of its name.
DatasetRow coco_row();
DatasetRow documents_row();
DatasetRow fashion_mnist_row();
DatasetRow image_folder_row();
DatasetRow npy_row();
DatasetRow synthetic_row();
DatasetRow table_row();
DatasetRow text_row();
DatasetRow tokens_row();
DatasetRow yolo_row();

namespace {

std::vector<DatasetRow> with_balance_keys(std::vector<DatasetRow> rows) {
  for (DatasetRow& row : rows) {
    for (KeySpec& key : balance_keys()) row.spec.keys.push_back(std::move(key));
  }
  return rows;
}

std::vector<DatasetRow>& all_dataset_table() {
  static std::vector<DatasetRow> table =
      with_balance_keys({coco_row(), documents_row(), fashion_mnist_row(), image_folder_row(), npy_row(),
                         synthetic_row(), table_row(), text_row(), tokens_row(), yolo_row()});
  return table;
}

}  // namespace

const std::vector<DatasetRow>& dataset_table() {
  return all_dataset_table();
}

void add_row(DatasetRow row) {
  all_dataset_table().push_back(std::move(with_balance_keys({std::move(row)}).front()));
}

namespace {

// Null: there is none.
const DatasetRow* find_row_of(const Choice& choice) {
  const auto& rows = dataset_table();
  const auto row =
      std::ranges::find_if(rows, [&](const DatasetRow& r) { return r.spec.name == choice.name; });
  return row == rows.end() ? nullptr : &*row;
}

const DatasetRow& row_of(const Choice& choice) {
  if (const DatasetRow* const row = find_row_of(choice)) return *row;
  throw Error(ExitCode::kBadRecipe, "data", "there is no data set named " + choice.name);
}

}  // namespace

void complete_other_data(DataRecipe& data) {
  const DatasetRow* const row = find_row_of(data.train);
  if (row == nullptr) return;
  for (std::optional<Choice>* const other : {&data.validation, &data.test}) {
    if (!*other || (*other)->name != data.train.name) continue;
    for (const std::string& key : row->as_training) {
      const auto said = data.train.parameters.find(key);
      if (said != data.train.parameters.end()) (*other)->parameters.insert(*said);
    }
  }
}

namespace {

// What other data than the training data are where nobody says: those that validate.
DataRole role_of(const DatasetPlace& place) {
  return place.training != nullptr && place.role == DataRole::kTraining ? DataRole::kValidation : place.role;
}

// The parameters of a place, and those of the training data where they are of the same kind.
struct PlaceParameters {
  explicit PlaceParameters(const DatasetPlace& place)
      : row(row_of(place.choice)), own(place.choice, row.spec) {
    if (place.training != nullptr && place.training->name == place.choice.name)
      training.emplace(*place.training, row.spec);
  }

  DatasetRequest request(const DatasetPlace& place) const {
    return {.parameters = own,
            .augment = place.augment,
            .targets = place.targets,
            .training = training ? &*training : nullptr,
            .skips_bad = place.skips_bad,
            .role = role_of(place)};
  }

  const DatasetRow& row;
  const Parameters own;
  std::optional<Parameters> training = {};
};

// Where bits are left out there may be values that need them; else no image is read.
std::vector<Doubt> doubts_of_unlabelled_images(const ImageList& images, const LookOptions& options) {
  DataLook look{.role = DataRole::kPredicted};
  if (images.reading.bits < 16) doubt_cut_values(see_images(images, options), images, look);
  return look.doubts;
}

}  // namespace

std::unique_ptr<Dataset> make_dataset(const DatasetPlace& place) {
  const PlaceParameters p(place);
  check_augmentations(p.row.spec.name, p.row.augmentations, place.augment);
  if (place.training != nullptr && !p.own.text("balance").empty()) {
    throw Error(ExitCode::kBadRecipe, cat(key_of(role_of(place)), ".balance"),
                "is set, and an evaluation sees each sample once",
                "set it in data.train alone; metrics such as macro_f1 weigh classes alike");
  }
  return p.row.make(p.request(place));
}

std::shared_ptr<const Balance> make_balance(const DatasetPlace& place, const Dataset& data, uint64_t seed) {
  return balance_of(PlaceParameters(place).own, data, place.targets.ignored, seed);
}

DataLook look_at(const DatasetPlace& place, const Dataset& data, const Dataset* training,
                 const LookOptions& options) {
  const PlaceParameters p(place);
  const DatasetRequest made_from = p.request(place);
  DataLook look{.role = role_of(place),
                .what = cat(place.choice.name, ": ", format_count(data.size()), " samples")};
  if (p.row.look)
    p.row.look({.made_from = made_from,
                .data = itself(data),
                .training = training == nullptr ? nullptr : &itself(*training),
                .options = options},
               look);
  return look;
}

std::string unlabelled_files(const Choice& choice) {
  const DatasetRow* const row = find_row_of(choice);
  return row == nullptr ? "" : row->unlabelled_files;
}

std::unique_ptr<Dataset> make_unlabelled(const std::filesystem::path& path, const DatasetPlace& place,
                                         const Dataset& like) {
  const PlaceParameters p(place);
  if (p.row.make_unlabelled) {
    return p.row.make_unlabelled({.parameters = p.own,
                                  .like = like,
                                  .path = path,
                                  .targets = place.targets,
                                  .training = p.training ? &*p.training : nullptr});
  }
  throw Error(ExitCode::kBadRecipe, path.string(),
              cat("cannot be made into samples as those of data set ", place.choice.name, " are"),
              "name data of the run's own kind: --set data.validation.…");
}

std::vector<Doubt> doubts_of_unlabelled(const std::filesystem::path& path, const DatasetPlace& place,
                                        const Dataset& like, const Dataset& samples) {
  const LookOptions options{.depth = LookDepth::kStart};
  if (const auto* const images = dynamic_cast<const MadeOfImages*>(&itself(samples)))
    return doubts_of_unlabelled_images(images->list(), options);
  const std::string& key = row_of(place.choice).looked_at_by;
  std::error_code error;
  if (key.empty() || !std::filesystem::is_regular_file(path, error)) return {};
  Choice looked_at = place.choice;
  for (const char* const part : {"arrays", "targets", "classes", "first", "limit", "split"})
    looked_at.parameters.erase(part);
  looked_at.parameters[key] = path.string();
  const Choice& training = place.training != nullptr ? *place.training : place.choice;
  return look_at({.choice = looked_at, .training = &training, .role = DataRole::kPredicted}, samples, &like,
                 options)
      .doubts;
}

}  // namespace autotrain
