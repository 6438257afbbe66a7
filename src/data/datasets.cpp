#include "data/datasets.h"

#include "autotrain/error.h"
#include "base/text.h"

namespace autotrain {

const std::vector<DatasetRow>& dataset_table() {
  static const std::vector<DatasetRow> table = {documents_row(), fashion_mnist_row(), image_folder_row(),
                                                npy_row(),       synthetic_row(),     table_row(),
                                                text_row(),      tokens_row(),        yolo_row()};
  return table;
}

std::unique_ptr<Dataset> make_dataset(const Choice& choice, const AugmentRecipe& augment) {
  for (const DatasetRow& row : dataset_table()) {
    if (row.spec.name != choice.name) continue;
    const Parameters parameters(choice, row.spec);
    check_augmentations(row.spec.name, row.augmentations, augment);
    return row.make({parameters, augment});
  }
  throw Error(ExitCode::kBadRecipe, "data", "there is no data set named " + choice.name);
}

std::string unlabelled_files(const Choice& choice) {
  for (const DatasetRow& row : dataset_table()) {
    if (row.spec.name == choice.name) return row.unlabelled_files;
  }
  return "";
}

std::unique_ptr<Dataset> make_unlabelled(const std::filesystem::path& path, const Choice& choice,
                                         const Dataset& like) {
  for (const DatasetRow& row : dataset_table()) {
    if (row.spec.name != choice.name || !row.make_unlabelled) continue;
    return row.make_unlabelled({.parameters = Parameters(choice, row.spec), .like = like, .path = path});
  }
  throw Error(ExitCode::kBadRecipe, path.string(),
              cat("cannot be made into samples as those of data set ", choice.name, " are"),
              "name data of the run's own kind: --set data.validation.…");
}

}  // namespace autotrain
