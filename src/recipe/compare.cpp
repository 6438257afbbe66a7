#include "recipe/compare.h"

#include <algorithm>

#include "base/text.h"
#include "recipe/sections.h"

namespace autotrain {
namespace {

bool is_learned(const std::string& path) {
  for (const char* const executed :
       {"name", "evaluation", "execution", "checkpoint", "report", "batch.cut", "sweep"}) {
    if (path == executed || path.starts_with(std::string(executed) + ".")) return false;
  }
  return true;
}

}  // namespace

std::map<std::string, std::string> values_of(Recipe recipe, const Catalog& catalog) {
  std::map<std::string, std::string> values;
  for (const Section& section : sections_of(recipe, catalog)) {
    const std::string prefix = section.path.empty() ? "" : section.path + ".";
    for (const Field& field : section.fields) values[prefix + field.spec.name] = yaml_text(field.get());
    if (section.rows == nullptr || section.choice() == nullptr) continue;
    const Choice& choice = *section.choice();
    values[prefix + section.choice_key] = choice.name;
    const ChoiceSpec* const row = find_row(*section.rows, choice.name);
    if (row == nullptr) continue;
    for (const KeySpec& key : row->keys) {
      values[prefix + key.name] = yaml_text(parameter_or_default(choice, key));
    }
  }
  return values;
}

std::vector<KeyDifference> differing_keys(const Recipe& before, const Recipe& after, const Catalog& catalog) {
  const auto old_values = values_of(before, catalog);
  const auto new_values = values_of(after, catalog);
  std::vector<KeyDifference> differences;
  for (const auto& [path, value] : old_values) {
    const auto now = new_values.find(path);
    const std::string after_text = now == new_values.end() ? "absent" : now->second;
    if (after_text != value) differences.push_back({path, value, after_text, is_learned(path)});
  }
  for (const auto& [path, value] : new_values) {
    if (!old_values.contains(path)) differences.push_back({path, "absent", value, is_learned(path)});
  }
  return differences;
}

std::vector<KeyDifference> changed_keys(const Recipe& recipe, const Catalog& catalog) {
  Recipe own = recipe, defaults;
  const std::vector<Section> own_sections = sections_of(own, catalog),
                             sections = sections_of(defaults, catalog);
  std::vector<KeyDifference> changes;
  for (size_t i = 0; i < sections.size(); ++i) {
    const Choice* const chosen = own_sections[i].choice ? own_sections[i].choice() : nullptr;
    if (chosen == nullptr) continue;
    const bool absent = sections[i].choice() == nullptr;
    if (absent) sections[i].set_present(true);
    const std::string path = sections[i].path + "." + sections[i].choice_key;
    const std::string before = absent ? "absent" : sections[i].choice()->name;
    if (before != chosen->name) changes.push_back({path, before, chosen->name, is_learned(path)});
    *sections[i].choice() = {chosen->name, {}};
  }
  for (KeyDifference& change : differing_keys(defaults, recipe, catalog))
    changes.push_back(std::move(change));
  std::ranges::sort(changes, {}, &KeyDifference::path);
  return changes;
}

std::string describe(const std::vector<KeyDifference>& differences) {
  std::vector<std::string> lines;
  for (const KeyDifference& d : differences) lines.push_back(cat(d.path, ": ", d.before, " → ", d.after));
  return join(lines, "\n  ");
}

}  // namespace autotrain
