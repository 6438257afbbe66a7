#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "autotrain/data.h"
#include "recipe/keys.h"

namespace autotrain {

/// What a data set is built from.
struct DatasetRequest {
  const Parameters& parameters;
  AugmentRecipe augment;  ///< {} for evaluation
};

struct DatasetRow {
  ChoiceSpec spec;
  std::function<std::unique_ptr<Dataset>(const DatasetRequest&)> make;
  std::vector<std::string> augmentations = {};  ///< keys of data.augment that it knows
};

/// Every data set a recipe can name. A data set is added by a row here and a file beside it.
const std::vector<DatasetRow>& dataset_table();

/// @throws Error(kMissingFile, kBadData) as the data set finds its files; Error(kBadRecipe) naming the key
/// when it cannot be augmented as asked.
std::unique_ptr<Dataset> make_dataset(const Choice& choice, const AugmentRecipe& augment);

/// @throws Error(kBadRecipe) naming the first key of data.augment that is asked for and not known.
void check_augmentations(const std::string& dataset, const std::vector<std::string>& known,
                         const AugmentRecipe& augment);

DatasetRow documents_row();
DatasetRow fashion_mnist_row();
DatasetRow npy_row();
DatasetRow image_folder_row();
DatasetRow synthetic_row();
DatasetRow table_row();
DatasetRow text_row();
DatasetRow tokens_row();
DatasetRow yolo_row();

}  // namespace autotrain
