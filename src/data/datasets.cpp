#include "data/datasets.h"

#include "autotrain/error.h"

namespace autotrain {

const std::vector<DatasetRow>& dataset_table() {
  static const std::vector<DatasetRow> table = {fashion_mnist_row(), npy_row(),  synthetic_row(),
                                                table_row(),         text_row(), tokens_row()};
  return table;
}

std::unique_ptr<Dataset> make_dataset(const Choice& choice, const AugmentRecipe& augment) {
  for (const DatasetRow& row : dataset_table()) {
    if (row.spec.name != choice.name) continue;
    const Parameters parameters(choice, row.spec);
    auto dataset = row.make({parameters, augment});
    const bool wanted = augment.flip || augment.crop_padding > 0;
    if (wanted && dataset->info().kind != DatasetInfo::Kind::kImages) {
      throw Error(ExitCode::kBadRecipe, "data.augment", choice.name + " holds no images to change",
                  "remove data.augment");
    }
    return dataset;
  }
  throw Error(ExitCode::kBadRecipe, "data", "there is no data set named " + choice.name);
}

}  // namespace autotrain
