#pragma once

#include <functional>
#include <string>
#include <vector>

#include "recipe/keys.h"

namespace autotrain {

/// A key bound to a member of one recipe.
struct Field {
  KeySpec spec;
  std::function<Value()> get;
  std::function<void(const Value&)> set;
};

/// A group of keys: `execution.memory`. The root has an empty path.
struct Section {
  std::string path;
  std::string sentence;
  std::vector<Field> fields = {};

  /// A section that chooses a row from a table holds the row's name under `choice_key` and the row's
  /// own keys beside it.
  std::string choice_key = "";
  std::string choice_sentence = "";
  const std::vector<ChoiceSpec>* rows = nullptr;
  std::function<Choice*()> choice = nullptr;                ///< null while an optional section is absent
  std::function<void(bool present)> set_present = nullptr;  ///< optional sections only

  /// A list of groups of keys: its items are sections, such as `optimizer.groups[0]`, that come behind it. Of
  /// one that has keys itself, a group of these may stand in the place of the list.
  std::function<std::vector<Section>()> items = nullptr;
  std::function<void(size_t count)> set_items = nullptr;  ///< makes so many items, all at their defaults
  bool is_item = false;

  std::string scalar_key = "";  ///< what a text in the place of the section sets; empty: none may stand there

  Decides decides = Decides::kUndeclared;  ///< of its choice, and of every key that does not say otherwise

  Decides decided_by(const KeySpec& key) const {
    return key.decides == Decides::kUndeclared ? decides : key.decides;
  }
};

/// The section with that declared.
Section deciding(Decides what, Section section);

/// The declaration of every key of a recipe, bound to `recipe`: the one place that knows names,
/// units, ranges, defaults and sentences. `recipe` and `catalog` must outlive the result.
std::vector<Section> sections_of(Recipe& recipe, const Catalog& catalog);

/// Those of them about optimizer and schedule.
std::vector<Section> optimizer_sections(Recipe& recipe, const Catalog& catalog);

/// Those of them that say how a run is executed.
std::vector<Section> execution_sections(Recipe& recipe, const Catalog& catalog);

std::vector<std::string> names_of(const std::vector<ChoiceSpec>& rows);

/// The row of that name, or null.
const ChoiceSpec* find_row(const std::vector<ChoiceSpec>& rows, const std::string& name);

}  // namespace autotrain
