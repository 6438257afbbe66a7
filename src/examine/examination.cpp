#include "examine/examination.h"

#include <algorithm>

#include "autotrain/error.h"
#include "base/clock.h"
#include "base/text.h"
#include "base/units.h"
#include "data/shape_text.h"
#include "setup/data_places.h"

namespace autotrain {
namespace {

// What every data set can say; what its files hold beyond that, it says itself.
void add_what_a_model_gets(const DatasetInfo& info, DataLook& look) {
  const auto add = [&](const char* name, const std::string& text) {
    look.facts.insert(look.facts.begin(), {name, text});
  };
  if (info.vocabulary > 0) add("vocabulary", format_count(info.vocabulary));
  if (info.classes > 0) add("outputs of a model", format_count(info.classes));
  if (!info.input_shape.empty()) add("a sample", shape_text(info.input_shape));
}

// Opens a set and looks at it. What ends that is the set's failure, and what was seen before it stays.
std::unique_ptr<Dataset> look_into(ExaminedSet& set, const DatasetPlace& place, const Dataset* training,
                                   const ExaminationOptions& options, uint64_t seed) {
  set.look.what = place.choice.name;
  std::unique_ptr<Dataset> data;
  try {
    data = make_dataset(place);
    const LookOptions how{
        .depth = LookDepth::kWhole, .threads = options.threads, .progress = [&](int64_t done, int64_t of) {
          if (options.progress) options.progress(set.role, done, of);
        }};
    set.look = look_at(place, *data, training, how);
    add_what_a_model_gets(data->info(), set.look);
    if (options.sheet_samples > 0) set.sheet = draw_samples(*data, options.sheet_samples, seed);
  } catch (const Error& error) {
    if (error.code() == ExitCode::kBadRecipe) throw;
    set.failure = error.what();
    set.failure_code = error.code();
  }
  return data;
}

}  // namespace

int64_t Examination::faults() const {
  int64_t faults = 0;
  for (const ExaminedSet& set : sets) {
    faults += set.failure.empty() ? 0 : 1;
    faults += std::ranges::count_if(set.look.doubts, &Doubt::stops);
  }
  return faults;
}

int64_t Examination::warnings() const {
  int64_t warnings = 0;
  for (const ExaminedSet& set : sets)
    warnings += std::ranges::count_if(set.look.doubts, [](const Doubt& doubt) { return !doubt.stops; });
  return warnings;
}

Examination examine(const Recipe& recipe, const ExaminationOptions& options) {
  const Stopwatch watch;
  const auto seed = static_cast<uint64_t>(recipe.seed);
  Examination found;
  const auto look = [&](const DatasetPlace& place, const Dataset* training) {
    found.sets.push_back({.role = word_of(place.role)});
    return look_into(found.sets.back(), place, training, options, seed);
  };
  const auto training = look(training_place(recipe), nullptr);
  if (recipe.data.validation) look(validation_place(recipe), training.get());
  if (recipe.data.test) look(test_place(recipe), training.get());
  found.seconds = watch.seconds();
  return found;
}

}  // namespace autotrain
