#include "study/training_data.h"

#include <algorithm>

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

std::vector<std::string> without(const std::vector<std::string>& names,
                                 const std::vector<std::string>& known) {
  std::vector<std::string> others;
  std::ranges::copy_if(names, std::back_inserter(others), [&](const std::string& name) {
    return std::ranges::find(known, name) == known.end();
  });
  return others;
}

std::string change_of_classes(const std::vector<std::string>& then, const std::vector<std::string>& now) {
  const std::vector<std::string> gone = without(then, now), fresh = without(now, then);
  std::vector<std::string> parts;
  if (!gone.empty()) parts.push_back(cat("without ", some_of(gone)));
  if (!fresh.empty()) parts.push_back(cat("with ", some_of(fresh)));
  if (!parts.empty()) return cat("are now ", join(parts, ", and "));
  const auto at = std::ranges::mismatch(then, now).in1 - then.begin();
  if (at == std::ssize(then) || at == std::ssize(now))
    return cat("are now ", now.size(), ", and were ", then.size());
  const auto place = static_cast<size_t>(at);
  return cat("are now in another order: class ", at, " is ", now[place], ", and was ", then[place]);
}

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
  const std::vector<std::string> then = class_names_of(run.folder);
  for (std::string& name : now) std::ranges::replace(name, '\n', ' ');  // as the run wrote them
  if (then.empty() || now.empty() || then == now) return;
  throw Error(ExitCode::kBadData, "data.train",
              cat("the classes of the run, which ", (run.folder / kClassesFile).string(), " lists, ",
                  change_of_classes(then, now), ": each would be taken for another"),
              kCure);
}

}  // namespace autotrain
