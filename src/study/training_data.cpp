#include "study/training_data.h"

#include <utility>

#include "autotrain/error.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "data/fingerprint.h"
#include "recipe/load.h"
#include "report/figure_table.h"
#include "state/catalog.h"
#include "state/data_files.h"
#include "state/snapshot.h"

namespace autotrain {
namespace {

constexpr const char* kCure =
    "put the former data back, or name them: --set data.train.…; what the data are now needs a run of its "
    "own";

}  // namespace

// A file that was moved and is named anew has the bytes that it had.
void check_training_file(const TrainedRun& run) {
  const std::string file = file_read_by(run.recipe.data.train);
  if (file.empty()) return;
  const SavedRun saved = saved_run(CheckpointFolder(run.checkpoint.parent_path()).read_state(run.update));
  const Choice then = load_recipe_text(saved.recipe, "the checkpoint's recipe", catalog()).data.train;
  const auto former = saved.identity.find(fact_of_file(file_read_by(then)));
  if (former == saved.identity.end()) return;  // of other data, or of a version that did not note it
  const std::string print = fingerprint_of(file);
  if (print == former->second) return;
  throw Error(
      ExitCode::kBadData, file,
      cat("is not the file that the run was trained with (it is ", print, ", and was ", former->second,
          "), and its rows say which columns, categories, means and classes the run's inputs have"),
      kCure);
}

void check_classes(const TrainedRun& run, std::vector<std::string> now) {
  const std::string change = change_of_classes(run.folder, std::move(now));
  if (!change.empty()) throw Error(ExitCode::kBadData, "data.train", change, kCure);
}

}  // namespace autotrain
