#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "autotrain/data.h"
#include "recipe/keys.h"

namespace autotrain {

/// What a data set is built from.
struct DatasetRequest {
  const Parameters& parameters;
  AugmentRecipe augment;  ///< {} for evaluation
};

/// A request for samples without labels, made as those of a data set are.
struct UnlabelledRequest {
  const Parameters& parameters;  ///< of the data set that the samples are to be like
  const Dataset& like;           ///< that data set
  std::filesystem::path path;    ///< the new files: a folder or a file that exists
};

struct DatasetRow {
  ChoiceSpec spec;
  std::function<std::unique_ptr<Dataset>(const DatasetRequest&)> make;
  std::vector<std::string> augmentations = {};  ///< keys of data.augment that it knows

  /// Makes other files into samples as its own are, in their order and without labels; null: it cannot.
  std::function<std::unique_ptr<Dataset>(const UnlabelledRequest&)> make_unlabelled = nullptr;
  const char* unlabelled_files = "";  ///< that it takes: "a folder of images, or one image"
};

/// Every data set a recipe can name. A data set is added by a row here and a file beside it.
const std::vector<DatasetRow>& dataset_table();

/// @throws Error(kMissingFile, kBadData) as the data set finds its files; Error(kBadRecipe) naming the key
/// when it cannot be augmented as asked.
std::unique_ptr<Dataset> make_dataset(const Choice& choice, const AugmentRecipe& augment);

/// What files `make_unlabelled` takes for this data set: "a folder of images, or one image"; "": none.
std::string unlabelled_files(const Choice& choice);

/// Makes the files at `path` into samples without labels, as a recipe's data set makes its own.
/// @param like the data set that was made from `choice`.
/// @throws Error(kBadRecipe) when there is no such way for it; Error(kMissingFile, kBadData) as its files are
/// found.
std::unique_ptr<Dataset> make_unlabelled(const std::filesystem::path& path, const Choice& choice,
                                         const Dataset& like);

/// The JPEG and PNG files in a folder, as deep in it as they lie, by their paths below it, or one of them:
/// for rows whose images are held as bytes. @throws Error(kBadRecipe) when they are not.
std::unique_ptr<Dataset> make_images_like_bytes(const UnlabelledRequest& request);

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
