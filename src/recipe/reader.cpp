#include "recipe/reader.h"

#include <algorithm>

#include "autotrain/error.h"
#include "base/text.h"
#include "recipe/names_elsewhere.h"
#include "recipe/sections.h"

namespace autotrain {
namespace {

using Kind = YamlNode::Kind;

[[noreturn]] void fail(const Location& at, const std::string& path, const std::string& what,
                       std::string hint = "") {
  throw Error(ExitCode::kBadRecipe, at.text() + ": " + path, what, std::move(hint));
}

std::string shown(const YamlNode& node) {
  switch (node.kind) {
    case Kind::kNull: return "null";
    case Kind::kScalar: return quote(node.scalar);
    case Kind::kSequence: return "a list";
    case Kind::kMap: return "a group of keys";
  }
  return "";
}

// Of a whole number beyond the last one that readers of JSON keep: ranges do not tell it, as nobody but one
// who draws a seed comes there.
std::string largest_of_all(const YamlNode& node, const KeySpec& key) {
  double value = 0;
  const bool beyond = key.kind == KeyKind::kInteger && key.most >= KeySpec::kLargest &&
                      parse_real(node.scalar, value) && value > KeySpec::kLargest;
  return beyond ? cat("the largest is ", static_cast<int64_t>(KeySpec::kLargest)) : "";
}

[[noreturn]] void fail_value(const YamlNode& node, const KeySpec& key, const std::string& path) {
  const std::string near = node.kind == Kind::kScalar ? near_name(node.scalar, key.words) : "";
  fail(node.location, path, shown(node) + " is not " + allowed_text(key),
       near.empty() ? largest_of_all(node, key) : "did you mean " + quote(near) + "?");
}

int64_t read_integer(const YamlNode& node, const KeySpec& key, const std::string& path) {
  int64_t value = 0;
  const bool number = node.kind == Kind::kScalar && !node.quoted && parse_integer(node.scalar, value);
  if (!number) fail_value(node, key, path);
  return value;
}

double read_real(const YamlNode& node, const KeySpec& key, const std::string& path) {
  double value = 0;
  const bool number = node.kind == Kind::kScalar && !node.quoted && parse_real(node.scalar, value);
  if (!number) fail_value(node, key, path);
  return value;
}

bool read_flag(const YamlNode& node, const KeySpec& key, const std::string& path) {
  if (node.kind == Kind::kScalar && !node.quoted) {
    if (node.scalar == "true" || node.scalar == "True") return true;
    if (node.scalar == "false" || node.scalar == "False") return false;
  }
  fail_value(node, key, path);
}

std::string read_text(const YamlNode& node, const KeySpec& key, const std::string& path) {
  if (node.kind != Kind::kScalar) fail_value(node, key, path);
  return node.scalar;
}

// Each item is checked by itself, so that an error points at it.
template <class Item, class ReadItem>
Value read_list(const YamlNode& node, const KeySpec& key, const std::string& path, ReadItem read) {
  if (key.single && node.kind == Kind::kScalar) {
    YamlNode list;
    list.kind = Kind::kSequence;
    list.items = {node};
    return read_list<Item>(list, key, path, read);
  }
  if (node.kind != Kind::kSequence) fail_value(node, key, path);
  if (key.length > 0 && node.items.size() != key.length) {
    fail(node.location, path, cat("has ", node.items.size(), " items; allowed is ", allowed_text(key)));
  }
  std::vector<Item> items;
  for (const YamlNode& item : node.items) {
    items.push_back(read(item, key, path));
    if (!allows(key.of_length(0), Value(std::vector<Item>{items.back()}))) fail_value(item, key, path);
  }
  return items;
}

std::string child_path(const std::string& path, const std::string& key) {
  return path.empty() ? key : path + "." + key;
}

// A value for each part that is named: {cpu: 256MiB, cuda: 4GiB}.
Value read_parts(const YamlNode& node, const KeySpec& key, const std::string& path) {
  const KeySpec of_part = key.or_for_each({});
  std::map<std::string, std::string> values;
  for (const YamlEntry& entry : node.entries) {
    const std::string at = child_path(path, entry.key);
    if (std::ranges::count(key.parts, entry.key) == 0) {
      const std::string near = near_name(entry.key, key.parts);
      fail(entry.key_location, at, "is not one of " + join_choices(key.parts),
           near.empty() ? "" : "did you mean " + quote(near) + "?");
    }
    if (entry.value.kind == Kind::kNull) continue;
    values[entry.key] = std::get<std::string>(read_value(entry.value, of_part, at));
  }
  return values;
}

// A value of the type that the key declares.
Value parse_value(const YamlNode& node, const KeySpec& key, const std::string& path) {
  switch (key.kind) {
    case KeyKind::kBool: return read_flag(node, key, path);
    case KeyKind::kInteger: return read_integer(node, key, path);
    case KeyKind::kReal: return read_real(node, key, path);
    case KeyKind::kText:
      return node.kind == Kind::kMap && !key.parts.empty() ? read_parts(node, key, path)
                                                           : Value(read_text(node, key, path));
    case KeyKind::kWord: fail_value(node, key, path);
    case KeyKind::kIntegerList: return read_list<int64_t>(node, key, path, read_integer);
    case KeyKind::kRealList: return read_list<double>(node, key, path, read_real);
    case KeyKind::kTextList: return read_list<std::string>(node, key, path, read_text);
  }
  return {};
}

// Keys that stood elsewhere once, and where they stand.
struct MovedKey {
  const char* from;
  const char* to;
};

constexpr MovedKey kMovedKeys[] = {
    {"batch.adapt.max", "batch.limits.max_effective"},
    {"batch.adapt.min", "batch.limits.min_effective"},
    {"batch.cut", "execution.cut"},
    {"batch.max_effective", "batch.limits.max_effective"},
    {"batch.schedule.max", "batch.limits.max_effective"},
    {"execution.search.max_micro_batch", "batch.limits.max_micro_batch"},
};

bool is_word(const YamlNode& node, const KeySpec& key) {
  return node.kind == Kind::kScalar &&
         std::find(key.words.begin(), key.words.end(), node.scalar) != key.words.end();
}

// The paths of a key by its name. Where no section has it itself, those of the rows that have it:
// "optimizer.momentum of sgd or lars".
std::vector<std::string> places_in(const std::vector<Section>& sections, const std::string& key) {
  std::vector<std::string> places, of_rows;
  for (const Section& section : sections) {
    const std::string path = child_path(section.path, key);
    if (last_part(section.path) == key) places.push_back(section.path);
    if (std::ranges::any_of(section.fields, [&](const Field& field) { return field.spec.name == key; }))
      places.push_back(path);
    if (section.rows == nullptr) continue;
    std::vector<std::string> names;
    for (const ChoiceSpec& row : *section.rows) {
      if (std::ranges::find(row.keys, key, &KeySpec::name) != row.keys.end()) names.push_back(row.name);
    }
    if (!names.empty()) of_rows.push_back(cat(path, " of ", join_choices(names)));
  }
  return places.empty() ? of_rows : places;
}

class RecipeReader {
 public:
  RecipeReader(Recipe& recipe, const Catalog& catalog)
      : recipe_(recipe), sections_(sections_of(recipe, catalog)) {}

  // Reads the section at `path` and, recursively, those below it.
  void read(const YamlNode& node, const std::string& path) {
    Section& section = *section_at(path);
    const bool keys_instead = node.kind == Kind::kMap && !section.fields.empty();
    if (section.items && !keys_instead) return read_items(node, section);
    if (node.kind == Kind::kNull) {
      if (section.set_present) section.set_present(false);
      return;
    }
    if (node.kind == Kind::kScalar && !section.scalar_key.empty()) return read_scalar(node, section);
    if (node.kind == Kind::kScalar && section.rows != nullptr) fail_choice_alone(node, section);
    check_map(node, path.empty() ? "recipe" : path);
    if (section.set_present) section.set_present(true);
    const ChoiceSpec* const row = section.rows ? read_choice(node, section) : nullptr;
    for (const YamlEntry& entry : node.entries) read_entry(entry, section, row);
  }

 private:
  Section* section_at(const std::string& path) {
    for (Section& section : sections_) {
      if (section.path == path) return &section;
    }
    return nullptr;
  }

  void check_map(const YamlNode& node, const std::string& path) const {
    if (node.kind == Kind::kMap) return;
    fail(node.location, path, shown(node) + " is not a group of keys", "write key: value lines below it");
  }

  // "optimizer: adam", as others write it.
  [[noreturn]] void fail_choice_alone(const YamlNode& node, const Section& section) const {
    const std::string near = near_name(node.scalar, row_names(section));
    fail(node.location, section.path, shown(node) + " is not a group of keys",
         near.empty() ? "write key: value lines below it"
                      : cat("write ", last_part(section.path), ": {", section.choice_key, ": ", near, "}"));
  }

  void read_items(const YamlNode& node, Section& list) {
    if (node.kind != Kind::kSequence && node.kind != Kind::kNull)
      fail(node.location, list.path, shown(node) + " is not a list",
           list.fields.empty() ? "begin each of its groups of keys with - "
                               : "begin each of its groups of keys with - , or give " +
                                     join_choices(known_keys(list, nullptr)));
    recipe_.origins[list.path] = node.location.text();
    list.set_items(node.items.size());
    std::vector<Section> items = list.items();
    for (size_t i = 0; i < items.size(); ++i) {
      check_map(node.items[i], items[i].path);
      recipe_.origins[items[i].path] = node.items[i].location.text();
      for (const YamlEntry& entry : node.items[i].entries) read_entry(entry, items[i], nullptr);
    }
  }

  void read_scalar(const YamlNode& node, Section& section) {
    const std::string path = child_path(section.path, section.scalar_key);
    for (Field& field : section.fields) {
      if (field.spec.name == section.scalar_key) field.set(read_value(node, field.spec, path));
    }
    recipe_.origins[path] = node.location.text();
  }

  // The row must be known before the other keys mean anything.
  const ChoiceSpec* read_choice(const YamlNode& node, Section& section) {
    Choice& choice = *section.choice();
    const YamlEntry* const entry = node.find(section.choice_key);
    const std::string path = child_path(section.path, section.choice_key);
    if (entry != nullptr && entry->value.kind != Kind::kNull) {
      KeySpec key = word_key(section.choice_key, "", {});
      for (const ChoiceSpec& row : *section.rows) key.words.push_back(row.name);
      choice.name = std::get<std::string>(read_value(entry->value, key, path));
      recipe_.origins[path] = entry->value.location.text();
    }
    if (choice.name.empty()) {
      fail(node.location, path, "is missing", "name one of " + join_choices(row_names(section)));
    }
    return find_row(*section.rows, choice.name);
  }

  void read_entry(const YamlEntry& entry, Section& section, const ChoiceSpec* row) {
    const std::string path = child_path(section.path, entry.key);
    if (section.rows != nullptr && entry.key == section.choice_key) return;
    if (section_at(path) != nullptr) return read(entry.value, path);
    if (entry.value.kind == Kind::kNull) {  // null unsets: the default holds
      if (!entry.of_other_row && !is_known(entry.key, section, row)) fail_unknown(entry, section, row);
      return;
    }
    for (Field& field : section.fields) {
      if (field.spec.name != entry.key) continue;
      field.set(read_value(entry.value, field.spec, path));
      recipe_.origins[path] = entry.value.location.text();
      for (const YamlEntry& part : entry.value.entries)
        recipe_.origins[child_path(path, part.key)] = part.value.location.text();
      return;
    }
    if (entry.of_other_row) return;
    if (row != nullptr) {
      for (const KeySpec& key : row->keys) {
        if (key.name != entry.key) continue;
        section.choice()->parameters[key.name] = read_value(entry.value, key, path);
        recipe_.origins[path] = entry.value.location.text();
        return;
      }
    }
    fail_unknown(entry, section, row);
  }

  std::vector<std::string> row_names(const Section& section) const {
    std::vector<std::string> names;
    for (const ChoiceSpec& row : *section.rows) names.push_back(row.name);
    return names;
  }

  std::vector<std::string> known_keys(const Section& section, const ChoiceSpec* row) const {
    std::vector<std::string> keys;
    for (const Field& field : section.fields) keys.push_back(field.spec.name);
    if (section.rows != nullptr) keys.push_back(section.choice_key);
    if (row != nullptr) {
      for (const KeySpec& key : row->keys) keys.push_back(key.name);
    }
    const std::string prefix = section.path.empty() ? "" : section.path + ".";
    for (const Section& other : sections_) {
      const bool below = other.path.size() > prefix.size() && other.path.starts_with(prefix);
      const std::string rest = below ? other.path.substr(prefix.size()) : "";
      if (below && rest.find('.') == std::string::npos) keys.push_back(rest);
    }
    if (section.path.empty()) keys.push_back("extends");
    return keys;
  }

  bool is_known(const std::string& key, const Section& section, const ChoiceSpec* row) const {
    const auto keys = known_keys(section, row);
    return std::find(keys.begin(), keys.end(), key) != keys.end();
  }

  // Where else the key would be right: in another section or for another row.
  std::string other_place(const std::string& key, const Section& section, const ChoiceSpec* row) const {
    if (section.rows != nullptr) {
      for (const ChoiceSpec& other : *section.rows) {
        for (const KeySpec& spec : other.keys) {
          if (spec.name == key) return cat("it is a key of ", other.name, ", not of ", row->name);
        }
      }
    }
    if (section.rows != nullptr && key != section.choice_key && (key == "name" || key == "type"))
      return cat("what it is stands under ", section.choice_key, " here");
    const std::vector<std::string> places = places_in(sections_, key);
    if (!places.empty()) return "it belongs at " + join_choices(places);
    const std::string elsewhere = place_of_key_elsewhere(key);
    return elsewhere.empty() ? "" : "what other tools call so is " + elsewhere;
  }

  [[noreturn]] void fail_unknown(const YamlEntry& entry, const Section& section,
                                 const ChoiceSpec* row) const {
    const std::string path = child_path(section.path, entry.key);
    for (const MovedKey& key : kMovedKeys) {
      if (path == key.from)
        fail(entry.key_location, path, cat("is called ", key.to, " now"), cat("write ", key.to));
    }
    const std::vector<std::string> keys = known_keys(section, row);
    const std::string near = near_name(entry.key, keys);
    std::string hint =
        !near.empty() ? "did you mean " + quote(near) + "?" : other_place(entry.key, section, row);
    if (hint.empty()) hint = "known here: " + join(keys, ", ");
    fail(entry.key_location, path, "is not a known key", hint);
  }

  Recipe& recipe_;
  std::vector<Section> sections_;
};

}  // namespace

Value read_value(const YamlNode& node, const KeySpec& key, const std::string& path) {
  if (is_word(node, key)) return node.scalar;
  Value value = parse_value(node, key, path);
  if (!allows(key, value)) fail_value(node, key, path);
  return value;
}

std::string place_of_key(const std::string& key, const Catalog& catalog) {
  constexpr size_t kFew = 3;
  Recipe recipe;
  const std::vector<std::string> places = places_in(sections_of(recipe, catalog), key);
  if (places.empty()) return place_of_key_elsewhere(key);
  if (std::ranges::count(places, key) > 0) return key;  // of the whole recipe, such as seed
  return places.size() > kFew ? "" : join_choices(places);
}

Recipe read_recipe(const YamlNode& tree, const Catalog& catalog) {
  Recipe recipe;
  if (tree.kind == Kind::kNull) {
    fail(tree.location, "recipe", "is empty", "start from one of recipes/, or see `autotrain config`");
  }
  RecipeReader(recipe, catalog).read(tree, "");
  return recipe;
}

void fail_recipe(const Recipe& recipe, const std::string& path, std::string what, std::string hint) {
  const auto origin = recipe.origins.find(path);
  const std::string where = origin == recipe.origins.end() ? path : origin->second + ": " + path;
  throw Error(ExitCode::kBadRecipe, where, std::move(what), std::move(hint));
}

}  // namespace autotrain
