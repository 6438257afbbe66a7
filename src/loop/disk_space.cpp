#include "loop/disk_space.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/file_layer.h"
#include "base/files.h"
#include "base/text.h"
#include "base/units.h"

namespace autotrain {
namespace {

// The newest ones, the best one, and the one that is written before an old one is removed, less those that
// are there already.
int64_t most_to_come(const CheckpointRecipe& recipe, const CheckpointFolder& checkpoints) {
  const bool only_the_last = recipe.every.unit == Interval::Unit::kNever;
  const int64_t at_once = only_the_last ? 1 : recipe.keep + 2;
  return std::max<int64_t>(1, at_once - std::ssize(checkpoints.updates()));
}

[[noreturn]] void fail_fallback(const std::string& what) {
  throw Error(ExitCode::kInputOutput, "checkpoint.fallback", what,
              "name a folder that may be written to, or leave it out");
}

// It is for when all else has failed, too late to learn that nothing can be saved there.
void check_fallback(const std::string& folder) {
  try {
    make_folders(folder);
  } catch (const Error& error) {
    fail_fallback(cat(error.where(), ": ", error.problem()));
  }
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    fail_fallback(cat(folder, " may not be written to: ", std::strerror(errno)));
}

}  // namespace

void check_disk_space(const CheckpointRecipe& recipe, const CheckpointFolder& checkpoints,
                      int64_t checkpoint_bytes) {
  if (recipe.fallback) check_fallback(*recipe.fallback);
  const std::string folder = checkpoints.path().string();
  const int64_t free = file_layer().free_bytes(folder.c_str());
  const int64_t most = most_to_come(recipe, checkpoints);
  if (free < 0 || free / most >= checkpoint_bytes) return;
  const std::string hint = "free some space, or give --output a folder on another disk";
  const std::string what = cat("its disk has ", format_bytes(free), " left, and a checkpoint takes ",
                               format_bytes(checkpoint_bytes));
  if (free < checkpoint_bytes && !recipe.fallback) throw Error(ExitCode::kInputOutput, folder, what, hint);
  log::warn("checkpoint", cat(folder, ": ", what, "; up to ", most, " more are to lie there at once. Try: ",
                              hint, recipe.keep > 1 ? "; or lower checkpoint.keep" : ""));
}

}  // namespace autotrain
