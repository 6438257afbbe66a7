#include "data/datasets.h"

#include "autotrain/error.h"

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

}  // namespace autotrain
