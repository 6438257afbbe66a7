#include "recipe/compare.h"

#include <algorithm>

#include "base/text.h"
#include "recipe/sections.h"

namespace autotrain {
std::vector<KeyValue> key_values(Recipe recipe, const Catalog& catalog) {
  std::vector<KeyValue> values;
  for (const Section& section : sections_of(recipe, catalog)) {
    const std::string prefix = section.path.empty() ? "" : section.path + ".";
    for (const Field& field : section.fields) {
      values.push_back({prefix + field.spec.name, yaml_text(field.get()), section.decided_by(field.spec)});
    }
    if (section.rows == nullptr || section.choice() == nullptr) continue;
    const Choice& choice = *section.choice();
    values.push_back({prefix + section.choice_key, choice.name, section.decides});
    const ChoiceSpec* const row = find_row(*section.rows, choice.name);
    if (row == nullptr) continue;
    for (const KeySpec& key : row->keys) {
      values.push_back(
          {prefix + key.name, yaml_text(parameter_or_default(choice, key)), section.decided_by(key)});
    }
  }
  return values;
}

std::map<std::string, std::string> values_of(Recipe recipe, const Catalog& catalog) {
  std::map<std::string, std::string> values;
  for (KeyValue& key : key_values(std::move(recipe), catalog)) values[key.path] = std::move(key.value);
  return values;
}

std::vector<KeyDifference> differing_keys(const Recipe& before, const Recipe& after, const Catalog& catalog) {
  std::map<std::string, KeyDifference> by_path;
  for (const KeyValue& key : key_values(before, catalog)) {
    by_path[key.path] = {key.path, key.value, "absent", key.decides};
  }
  for (const KeyValue& key : key_values(after, catalog)) {
    by_path.try_emplace(key.path, KeyDifference{key.path, "absent", "", key.decides}).first->second.after =
        key.value;
  }
  std::vector<KeyDifference> differences;
  for (auto& [path, difference] : by_path) {
    if (difference.before != difference.after) differences.push_back(std::move(difference));
  }
  return differences;
}

std::vector<KeyDifference> changed_keys(const Recipe& recipe, const Catalog& catalog) {
  Recipe own = recipe, defaults;
  const std::vector<Section> own_sections = sections_of(own, catalog),
                             sections = sections_of(defaults, catalog);
  std::vector<KeyDifference> changes;
  for (const Section& own_section : own_sections) {
    const Choice* const chosen = own_section.choice ? own_section.choice() : nullptr;
    if (chosen == nullptr) continue;
    const Section& section = *std::ranges::find(sections, own_section.path, &Section::path);
    const bool absent = section.choice() == nullptr;
    if (absent) section.set_present(true);
    const std::string path = section.path + "." + section.choice_key;
    const std::string before = absent ? "absent" : section.choice()->name;
    if (before != chosen->name) changes.push_back({path, before, chosen->name, own_section.decides});
    *section.choice() = {chosen->name, {}};
  }
  for (KeyDifference& change : differing_keys(defaults, recipe, catalog))
    changes.push_back(std::move(change));
  std::ranges::sort(changes, {}, &KeyDifference::path);
  return changes;
}

std::string words_of(const Choice& choice) {
  std::string words = choice.name;
  for (const auto& [key, value] : choice.parameters) words += cat(" ", key, "=", yaml_text(value));
  return words;
}

std::string describe(const std::vector<KeyDifference>& differences) {
  std::vector<std::string> lines;
  for (const KeyDifference& d : differences) lines.push_back(cat(d.path, ": ", d.before, " → ", d.after));
  return join(lines, "\n  ");
}

}  // namespace autotrain
