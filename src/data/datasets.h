#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "autotrain/data.h"
#include "data/balance.h"
#include "data/look.h"
#include "data/target_use.h"
#include "recipe/keys.h"

namespace autotrain {

/// What a data set is built from.
struct DatasetRequest {
  const Parameters& parameters;
  AugmentRecipe augment = {};  ///< {} for evaluation
  TargetUse targets = {};

  /// Of the run's training data, where this is another set of the same kind: columns, classes and whatever
  /// else its files are read by are those of the training data. Null: this is the training data, or is unlike
  /// it.
  const Parameters* training = nullptr;

  bool skips_bad = false;  ///< the run goes on after a sample that cannot be read
  DataRole role = DataRole::kTraining;
};

/// A data set looked at.
struct LookRequest {
  const DatasetRequest& made_from;
  const Dataset& data;
  const Dataset* training;  ///< the run's training data, where this is its validation data; null: this is it
  const LookOptions& options;
};

/// A request for samples without labels, made as those of a data set are.
struct UnlabelledRequest {
  const Parameters& parameters;  ///< of the data set that the samples are to be like
  const Dataset& like;           ///< that data set
  std::filesystem::path path;    ///< the new files: a folder or a file that exists
  TargetUse targets = {};
  const Parameters* training = nullptr;  ///< as in DatasetRequest
};

struct DatasetRow {
  ChoiceSpec spec;
  std::function<std::unique_ptr<Dataset>(const DatasetRequest&)> make;
  std::vector<std::string> augmentations = {};  ///< keys of data.augment that it knows

  /// Makes other files into samples as its own are, in their order and without labels; null: it cannot.
  std::function<std::unique_ptr<Dataset>(const UnlabelledRequest&)> make_unlabelled = nullptr;
  const char* unlabelled_files = "";  ///< that it takes: "a folder of images, or one image"

  /// Says what it understood of its files, and what it doubts; null: what every data set can say is enough.
  std::function<void(const LookRequest&, DataLook&)> look = nullptr;

  /// Keys of what a sample is: other data of this kind have them as the training data do, where they leave
  /// them out.
  std::vector<std::string> as_training = {};

  /// The key that names the file of samples, where a look at it can be had without labels; empty: it cannot.
  std::string looked_at_by = "";
};

/// Every data set a recipe can name. A data set is added by a row here and a file beside it.
const std::vector<DatasetRow>& dataset_table();

/// Gives validation and test data of the training data's kind what of `as_training` only these say.
void complete_other_data(DataRecipe& data);

/// Adds a part of the program's own. To be called before anything refers to a row.
void add_row(DatasetRow row);

/// A data set of a run, and what else is known of the run when it is made.
struct DatasetPlace {
  const Choice& choice;
  AugmentRecipe augment = {};
  TargetUse targets = {};
  const Choice* training = nullptr;  ///< the choice of the run's training data, where this is another set
  bool skips_bad = false;            ///< `data.bad_samples: skip`
  DataRole role = DataRole::kTraining;
};

/// @throws Error(kMissingFile, kBadData) as the data set finds its files; Error(kBadRecipe) naming the key
/// when it cannot be augmented as asked.
std::unique_ptr<Dataset> make_dataset(const DatasetPlace& place);

/// How the samples of `data`, which was made from `place`, are balanced by its keys `balance` and `weights`,
/// and tells so; null: each epoch has each once. @throws as `balance_of` does.
std::shared_ptr<const Balance> make_balance(const DatasetPlace& place, const Dataset& data, uint64_t seed);

/// What is to be known of `data`, which was made from `place`. @param training the run's training data, where
/// `data` is other data.
DataLook look_at(const DatasetPlace& place, const Dataset& data, const Dataset* training,
                 const LookOptions& options);

/// What files `make_unlabelled` takes for this data set: "a folder of images, or one image"; "": none.
std::string unlabelled_files(const Choice& choice);

/// Makes the files at `path` into samples without labels, as a recipe's data set makes its own.
/// @param like the data set that was made from `place`.
/// @throws Error(kBadRecipe) when there is no such way for it; Error(kMissingFile, kBadData) as its files are
/// found.
std::unique_ptr<Dataset> make_unlabelled(const std::filesystem::path& path, const DatasetPlace& place,
                                         const Dataset& like);

/// Looks for what is doubtful in files that `make_unlabelled` made into `samples`: whether their numbers are
/// of other units, or of another scale, than the training data's, and whether images have values that are cut
/// off. Kinds of data that cannot say give nothing.
std::vector<Doubt> doubts_of_unlabelled(const std::filesystem::path& path, const DatasetPlace& place,
                                        const Dataset& like, const Dataset& samples);

/// The JPEG and PNG files in a folder, as deep in it as they lie, by their paths below it, or one of them:
/// for rows whose images are held as bytes. @throws Error(kBadRecipe) when they are not.
std::unique_ptr<Dataset> make_images_like_bytes(const UnlabelledRequest& request);

/// @throws Error(kBadRecipe) naming the first key of data.augment that is asked for and not known.
void check_augmentations(const std::string& dataset, const std::vector<std::string>& known,
                         const AugmentRecipe& augment);

}  // namespace autotrain
