#include "recipe/idle_keys.h"

#include <algorithm>
#include <optional>

#include "base/text.h"
#include "recipe/sections.h"

namespace autotrain {
namespace {

struct NamedValue {
  std::string path;
  Value value;
};

// What the section has under that name; nothing where it has no such key.
std::optional<NamedValue> value_in(const Section& section, const std::string& key) {
  const std::string path = section.path + "." + key;
  for (const Field& field : section.fields) {
    if (field.spec.name == key) return NamedValue{path, field.get()};
  }
  const Choice* const choice = section.choice ? section.choice() : nullptr;
  const ChoiceSpec* const row = choice != nullptr ? find_row(*section.rows, choice->name) : nullptr;
  if (row == nullptr) return std::nullopt;
  for (const KeySpec& spec : row->keys) {
    if (spec.name == key) return NamedValue{path, parameter_or_default(*choice, spec)};
  }
  return std::nullopt;
}

// "precision" is looked for beside the key, "execution.precision" where it stands.
std::optional<NamedValue> owner_of(const KeySpec& key, const Section& own,
                                   const std::vector<Section>& sections) {
  const size_t dot = key.owner.rfind('.');
  if (dot == std::string::npos) return value_in(own, key.owner);
  const auto other = std::ranges::find(sections, key.owner.substr(0, dot), &Section::path);
  return other == sections.end() ? std::nullopt : value_in(*other, last_part(key.owner));
}

class IdleKeys {
 public:
  explicit IdleKeys(const std::vector<Section>& sections) : sections_(sections) {}

  void look_at(const Section& section, const KeySpec& key, const Value& fallback) {
    if (key.owner.empty()) return;
    const std::optional<NamedValue> own = value_in(section, key.name);
    const std::optional<NamedValue> owner = owner_of(key, section, sections_);
    if (!own || !owner || own->value == fallback) return;
    if (std::ranges::count(key.owner_off, owner->value) == 0) return;
    found_.push_back({own->path, yaml_text(own->value), cat(owner->path, " is ", yaml_text(owner->value))});
  }

  void add(IdleKey key) { found_.push_back(std::move(key)); }
  std::vector<IdleKey> take() { return std::move(found_); }

 private:
  const std::vector<Section>& sections_;
  std::vector<IdleKey> found_;
};

// Where nothing decays, all or some of it makes no difference.
void look_at_decay(const OptimizerRecipe& o, IdleKeys& idle) {
  bool any = o.weight_decay > 0;
  for (size_t i = 0; i < o.groups.size(); ++i) {
    const double decay = o.groups[i].weight_decay.value_or(o.weight_decay);
    any |= decay > 0;
    if (o.groups[i].decay_all.value_or(false) && decay == 0)
      idle.add({cat("optimizer.groups[", i, "].decay_all"), "true", "its weight_decay is 0"});
  }
  if (o.decay_all && !any) idle.add({"optimizer.decay_all", "true", "optimizer.weight_decay is 0"});
}

}  // namespace

std::vector<IdleKey> idle_keys(Recipe recipe, const Catalog& catalog) {
  Recipe defaults;
  const std::vector<Section> sections = sections_of(recipe, catalog),
                             at_defaults = sections_of(defaults, catalog);
  IdleKeys idle(sections);
  for (const Section& section : sections) {
    const auto same = std::ranges::find(at_defaults, section.path, &Section::path);
    for (size_t i = 0; same != at_defaults.end() && i < section.fields.size(); ++i)
      idle.look_at(section, section.fields[i].spec, same->fields[i].get());
    const Choice* const choice = section.choice ? section.choice() : nullptr;
    const ChoiceSpec* const row = choice != nullptr ? find_row(*section.rows, choice->name) : nullptr;
    if (row == nullptr) continue;
    for (const KeySpec& key : row->keys) idle.look_at(section, key, key.fallback);
  }
  look_at_decay(recipe.optimizer, idle);
  return idle.take();
}

}  // namespace autotrain
