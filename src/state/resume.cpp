#include "state/resume.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <variant>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/json.h"
#include "base/text.h"
#include "data/fingerprint.h"
#include "model/exported_file.h"
#include "model/torchscript.h"
#include "recipe/load.h"
#include "recipe/writer.h"
#include "state/catalog.h"
#include "state/data_files.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

// A folder that was renamed would count as newer, or older, than the updates that it holds.
void check_number(const ResumePoint& point, const fs::path& file) {
  const int64_t updates = point.saved.state.position.updates;
  if (updates == point.update) return;
  throw Error(
      ExitCode::kBadData, file.string(),
      cat("updates is ", updates, ", and the checkpoint's folder is called ",
          file.parent_path().filename().string()),
      cat("give the folder its name back, update-", updates, ", or take it out of the run's checkpoints"));
}

// Its text is resolved: it names no variable that could have changed.
Recipe stored_recipe(const SavedRun& saved) {
  return load_recipe_text(saved.recipe, "the checkpoint's recipe", catalog());
}

// The recipe beside the weights that a recipe begins with; nothing where they are of no checkpoint.
std::optional<Recipe> recipe_of_weights(const fs::path& weights) {
  std::error_code error;
  const fs::path state = (fs::is_directory(weights, error) ? weights : weights.parent_path()) / "state.json";
  if (!fs::exists(state, error)) return std::nullopt;
  try {
    return stored_recipe(saved_run(read_json(state), state.string()));
  } catch (const Error&) {
    return std::nullopt;  // of another program, or another version
  }
}

// Whether weights mean something else where this key of their model is another.
bool decides_meaning(const KeyDifference& key, const Recipe& weights, const Recipe& now) {
  if (key.path == "model.lora.rank" || key.path == "model.lora.alpha")
    return weights.lora.active() && now.lora.active();
  const bool elsewhere = key.path.starts_with("model.weights.") || key.path.starts_with("model.lora.");
  return key.path.starts_with("model.") && !elsewhere && key.path != "model.freeze" &&
         key.path != "model.file" && key.path != "model.dropout";
}

// The files and folders of a run's data that lie elsewhere now.
class MovedData {
 public:
  explicit MovedData(const Identity& then) : then_(then) {
    for (const auto& [fact, value] : then) values_.insert(value);
  }

  // Gives a data set of the checkpoint's recipe the places of today's, where all that these hold is known.
  void follow(Choice& then, const Choice& now) {
    if (then.name != now.name || then.parameters == now.parameters || !look_at(now)) return;
    for (auto& [key, value] : then.parameters) {
      const auto same = now.parameters.find(key);
      if (same == now.parameters.end() || same->second.index() != value.index()) continue;
      if (auto* const text = std::get_if<std::string>(&value))
        follow(*text, std::get<std::string>(same->second));
      if (auto* const texts = std::get_if<std::vector<std::string>>(&value))
        follow(*texts, std::get<std::vector<std::string>>(same->second));
    }
  }

  // By where they lay.
  const std::map<std::string, std::string>& places() const { return places_; }

 private:
  void follow(std::vector<std::string>& then, const std::vector<std::string>& now) {
    for (size_t i = 0; i < then.size() && then.size() == now.size(); ++i) follow(then[i], now[i]);
  }

  void follow(std::string& then, const std::string& now) {
    const auto before = then_.find(fact_of_file(then));
    const auto today = today_.find(now);
    if (then == now || before == then_.end() || today == today_.end() || today->second != before->second)
      return;
    places_[then] = now;
    then = now;
  }

  // Whether the run began with every byte of it, labels that stand beside images among them. What cannot be
  // read is told by whoever needs it.
  bool look_at(const Choice& now) {
    try {
      today_ = fingerprints_of_data(now);
    } catch (const Error&) {
      return false;
    }
    return std::ranges::all_of(today_, [this](const auto& file) {
      return tells_every_byte(file.second) && values_.contains(file.second);
    });
  }

  const Identity& then_;
  std::set<std::string> values_;              // of all its facts
  std::map<std::string, std::string> today_;  // by path, of the data set that is followed
  std::map<std::string, std::string> places_;
};

// What is in the file of a model that comes from one; "": it does not.
std::string digest_of_model(const Choice& model, const std::string& file) {
  if (model.name == "exported") return read_exported_file(file).digest;
  return model.name == "torchscript" ? digest_of_script(file) : "";
}

// The model's file, which has another place today and holds the same.
void follow_model(Choice& then, const Choice& now, const std::string& digest) {
  const auto before = then.parameters.find("file");
  const auto today = now.parameters.find("file");
  if (then.name != now.name || before == then.parameters.end() || today == now.parameters.end()) return;
  const auto* const file = std::get_if<std::string>(&today->second);
  if (file == nullptr || before->second == today->second || digest.empty()) return;
  if (digest_of_model(now, *file) == digest) before->second = *file;
}

// The same of the weights that it began with, which are not read any more.
void follow_weights(WeightsRecipe& then, const WeightsRecipe& now, const std::string& fingerprint) {
  if (!then.file || !now.file || then.file == now.file || fingerprint.empty()) return;
  if (fingerprint_of_weights(*now.file) == fingerprint) then.file = now.file;
}

// Whether any of the model's files was followed. What cannot be read is told by whoever needs it.
bool follow_files_of_model(Recipe& then, const Recipe& now, const Identity& identity) {
  const Choice model = then.model;
  const WeightsRecipe weights = then.weights;
  try {
    follow_model(then.model, now.model, model_file_in(identity));
    follow_weights(then.weights, now.weights, initial_weights_in(identity));
  } catch (const Error&) {}
  return then.model != model || then.weights != weights;
}

}  // namespace

std::string terms_of_best(const Recipe& recipe) {
  std::vector<std::string> parts;
  for (const KeyValue& key : key_values(recipe, catalog())) {
    const bool counts = key.path == "evaluation.monitor" || key.path.starts_with("loss.") ||
                        key.path.starts_with("data.validation.");
    if (counts) parts.push_back(cat(key.path, ": ", key.value));
  }
  return join(parts, "; ");
}

void follow_data(SavedRun& saved, const Recipe& now) {
  Recipe stored = stored_recipe(saved);
  const Identity then = saved.identity;
  MovedData moved(then);
  moved.follow(stored.data.train, now.data.train);
  if (stored.data.validation && now.data.validation)
    moved.follow(*stored.data.validation, *now.data.validation);
  if (stored.data.test && now.data.test) moved.follow(*stored.data.test, *now.data.test);
  // In today's words, as keys that are new since then have their defaults.
  std::string& best_of = saved.state.position.best_of;
  if (!best_of.empty()) best_of = terms_of_best(stored);
  const bool has_moved_model = follow_files_of_model(stored, now, then);
  if (moved.places().empty() && !has_moved_model) return;
  for (const auto& [before, place] : moved.places()) {
    saved.identity[fact_of_file(place)] = then.at(fact_of_file(before));
    log::info("trainer", cat("the data of ", before, " lie in ", place, " now, and are the same"));
  }
  saved.recipe = write_recipe(stored, catalog());
}

std::vector<KeyDifference> changes_of_meaning(const Recipe& weights, const Recipe& now) {
  std::vector<KeyDifference> changes = differing_keys(weights, now, catalog());
  std::erase_if(changes, [&](const KeyDifference& key) { return !decides_meaning(key, weights, now); });
  return changes;
}

void tell_other_model(const Recipe& recipe) {
  const std::optional<Recipe> before = recipe_of_weights(*recipe.weights.file);
  const bool meant = recipe.weights.missing != Unmatched::kFail || recipe.weights.shapes != Unmatched::kFail;
  if (!before || before->model.name != recipe.model.name || meant) return;
  const std::vector<KeyDifference> others = changes_of_meaning(*before, recipe);
  if (others.empty()) return;
  log::warn("model",
            cat(*recipe.weights.file,
                " is of a run whose model was another, in which these weights meant something else: ",
                describe(others), ". Try: the keys that it had"));
}

std::vector<KeyDifference> changes_of_recipe(const SavedRun& saved, const Recipe& now) {
  return differing_keys(stored_recipe(saved), now, catalog());
}

nlohmann::ordered_json resume_to_json(const std::optional<ResumePoint>& point) {
  if (!point) return nullptr;
  return {{"update", point->update},
          {"state", state_to_json(point->saved)},
          {"same_recipe", point->same_recipe},
          {"keep_plan", point->keep_plan}};
}

std::optional<ResumePoint> resume_from_json(const nlohmann::ordered_json& json) {
  if (json.is_null()) return std::nullopt;
  return ResumePoint{json.at("update").get<int64_t>(), saved_run(json.at("state")),
                     json.at("same_recipe").get<bool>(), json.at("keep_plan").get<bool>()};
}

std::optional<ResumePoint> find_resume_point(const RunFolder& folder, const Recipe& recipe,
                                             bool allow_change) {
  const auto newest = folder.checkpoints().read_newest_state();
  if (!newest) {
    // Where there was a run before, what it did is lost; studies resume runs that have not begun.
    const bool was_begun = fs::exists(folder.path() / "metrics.jsonl");
    log::write(was_begun ? log::Level::kWarning : log::Level::kInfo, "trainer",
               cat("no checkpoint to resume in ", folder.path().string(), "; starting from the beginning"));
    return std::nullopt;
  }
  const fs::path file = folder.checkpoints().path_of(newest->first) / "state.json";
  ResumePoint point{newest->first, saved_run(newest->second, file.string())};
  check_number(point, file);
  follow_data(point.saved, recipe);
  const auto differences = changes_of_recipe(point.saved, recipe);
  std::vector<KeyDifference> learned;
  std::copy_if(differences.begin(), differences.end(), std::back_inserter(learned),
               [](const KeyDifference& d) { return decides_learning(d.decides); });
  if (!learned.empty() && !allow_change) {
    throw Error(ExitCode::kBadRecipe, folder.path().string(),
                "the recipe changes what is learned since the checkpoint\n  " + describe(learned),
                "resume with the recipe as it was, or give --allow-change to go on as the recipe says now");
  }
  if (!differences.empty()) log::warn("trainer", "resumed with changed keys: " + describe(differences));
  point.same_recipe = learned.empty();
  point.keep_plan = std::none_of(differences.begin(), differences.end(),
                                 [](const KeyDifference& d) { return decides_memory(d.decides); });
  return point;
}

}  // namespace autotrain
