#include "recipe/load.h"

#include <algorithm>
#include <map>
#include <system_error>

#include "autotrain/error.h"
#include "base/files.h"
#include "base/text.h"
#include "recipe/checks.h"
#include "recipe/reader.h"
#include "recipe/sections.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

using Kind = YamlNode::Kind;
constexpr int64_t kLargestRecipe = 1 << 20;

// Where a section may be written as the value of one of its keys: batch.adapt, as its rule.
using ShortForms = std::map<std::string, std::string>;

ShortForms short_forms(const Catalog& catalog) {
  ShortForms forms;
  Recipe recipe;
  for (const Section& section : sections_of(recipe, catalog)) {
    if (!section.scalar_key.empty()) forms[section.path] = section.scalar_key;
  }
  return forms;
}

bool names_other_row(const YamlNode& base, const YamlNode& over, const char* choice_key) {
  const YamlEntry* const before = base.find(choice_key);
  const YamlEntry* const after = over.find(choice_key);
  return before != nullptr && after != nullptr && before->value.scalar != after->value.scalar;
}

bool chooses_other_row(const YamlNode& base, const YamlNode& over) {
  return names_other_row(base, over, "name") || names_other_row(base, over, "dataset");
}

YamlNode written_out(YamlNode scalar, const std::string& key) {
  YamlNode map;
  map.kind = Kind::kMap;
  map.location = scalar.location;
  const Location at = scalar.location;
  map.entries.push_back({.key = key, .key_location = at, .value = std::move(scalar)});
  return map;
}

// `over` wins, key by key; lists and scalars replace.
class Merger {
 public:
  explicit Merger(const Catalog& catalog) : short_forms_(short_forms(catalog)) {}

  // Of whole recipes, whose `name` chooses no row.
  void merge_recipes(YamlNode& base, const YamlNode& over) const { merge_entries(base, over, ""); }

  // Of a recipe and all overrides. What these give is kept whatever their order, so that it is read or
  // refused: which keys are of another row is seen when all are there.
  void merge_overrides(YamlNode& recipe, const std::vector<YamlNode>& overrides) const {
    const YamlNode before = recipe;
    for (const YamlNode& over : overrides) merge_entries(recipe, over, "");
    for (YamlEntry& entry : recipe.entries) {
      if (const YamlEntry* const was = before.find(entry.key)) mark_other_rows(was->value, entry.value);
    }
  }

 private:
  // Marks what no override gave and stood beside the name of another row.
  static void mark_other_rows(const YamlNode& before, YamlNode& after) {
    if (before.kind != Kind::kMap || after.kind != Kind::kMap) return;
    const bool other = chooses_other_row(before, after);
    for (YamlEntry& entry : after.entries) {
      const YamlEntry* const was = before.find(entry.key);
      entry.of_other_row = !entry.of_override && was != nullptr && (was->of_other_row || other);
      if (was != nullptr) mark_other_rows(was->value, entry.value);
    }
  }

  void merge(YamlNode& base, const YamlNode& over, const std::string& path) const {
    const auto short_form = short_forms_.find(path);
    if (base.kind == Kind::kScalar && over.kind == Kind::kMap && short_form != short_forms_.end())
      base = written_out(std::move(base), short_form->second);
    if (base.kind != Kind::kMap || over.kind != Kind::kMap) {
      base = over;
      return;
    }
    if (chooses_other_row(base, over)) {
      for (YamlEntry& entry : base.entries) entry.of_other_row |= !entry.of_override;
    }
    merge_entries(base, over, path + ".");
  }

  void merge_entries(YamlNode& base, const YamlNode& over, const std::string& prefix) const {
    for (const YamlEntry& entry : over.entries) {
      const auto same = std::find_if(base.entries.begin(), base.entries.end(),
                                     [&](const YamlEntry& e) { return e.key == entry.key; });
      if (same == base.entries.end()) {
        base.entries.push_back(entry);
      } else {
        same->key_location = entry.key_location;
        same->of_other_row = entry.of_other_row;
        same->of_override = entry.of_override;
        merge(same->value, entry.value, prefix + entry.key);
      }
    }
  }

  ShortForms short_forms_;
};

std::vector<YamlNode> extended_files(const YamlNode& value) {
  if (value.kind == Kind::kScalar) return {value};
  if (value.kind == Kind::kSequence) return value.items;
  throw Error(ExitCode::kBadRecipe, value.location.text() + ": extends", "is not a file or a list of files");
}

std::string cycle_text(const std::vector<fs::path>& open, const fs::path& again) {
  std::vector<std::string> names;
  const auto start = std::find(open.begin(), open.end(), again);
  for (auto it = start; it != open.end(); ++it) names.push_back(it->filename().string());
  names.push_back(again.filename().string());
  return join(names, " → ");
}

// By which a file is known again. What has no path of its own, as a pipe, keeps the one that it was given.
fs::path known_as(const fs::path& path) {
  std::error_code error;
  const fs::path canonical = fs::weakly_canonical(path, error);
  return error ? path : canonical;
}

class Extender {
 public:
  Extender(LookUp variables, const Merger& merger) : variables_(std::move(variables)), merger_(merger) {}

  YamlNode load(const fs::path& path, const std::string& shown_name) {
    open_.push_back(known_as(path));
    YamlNode tree = resolve(parse_yaml(read_file(path, kLargestRecipe), shown_name), path.parent_path());
    open_.pop_back();
    return tree;
  }

  // Replaces `extends:` by what it names, overridden by the rest of the tree.
  YamlNode resolve(YamlNode tree, const fs::path& folder) {
    expand_variables(tree, variables_);
    const auto entry = std::find_if(tree.entries.begin(), tree.entries.end(),
                                    [](const YamlEntry& e) { return e.key == "extends"; });
    if (entry == tree.entries.end()) return tree;
    const YamlNode value = entry->value;
    tree.entries.erase(entry);
    if (value.kind == Kind::kNull) return tree;
    YamlNode base;
    base.kind = Kind::kMap;
    base.location = tree.location;
    for (const YamlNode& file : extended_files(value))
      merger_.merge_recipes(base, load_extended(file, folder));
    merger_.merge_recipes(base, tree);  // which is a map, as it has the key
    return base;
  }

 private:
  YamlNode load_extended(const YamlNode& file, const fs::path& folder) {
    const std::string where = file.location.text() + ": extends";
    if (file.kind != Kind::kScalar) throw Error(ExitCode::kBadRecipe, where, "is not a file name");
    const fs::path path = fs::path(file.scalar).is_absolute() ? fs::path(file.scalar) : folder / file.scalar;
    std::error_code error;
    if (!fs::is_regular_file(path, error)) {
      const bool unknown = error && error != std::errc::no_such_file_or_directory;
      throw Error(
          ExitCode::kBadRecipe, where,
          cat(quote(path.string()), unknown ? " cannot be read: " + error.message() : " is not a file"),
          unknown ? "" : "the name is relative to the file that extends it");
    }
    const fs::path canonical = known_as(path);
    if (std::find(open_.begin(), open_.end(), canonical) != open_.end()) {
      throw Error(ExitCode::kBadRecipe, where, "goes in a circle: " + cycle_text(open_, canonical));
    }
    YamlNode extended = load(path, path.lexically_normal().string());
    if (extended.kind != Kind::kMap) {
      throw Error(ExitCode::kBadRecipe, where, quote(path.string()) + " has no keys",
                  "give a recipe, a YAML file of `key: value`, or leave the name out");
    }
    return extended;
  }

  LookUp variables_;
  const Merger& merger_;
  std::vector<fs::path> open_;
};

[[noreturn]] void fail_usage(const std::string& text, const std::string& what, const std::string& cure) {
  throw Error(ExitCode::kUsage, "--set " + quote(text), what, cure);
}

void mark_overrides(YamlNode& node) {
  for (YamlEntry& entry : node.entries) {
    entry.of_override = true;
    mark_overrides(entry.value);
  }
}

// "a.b=v" as the tree {a: {b: v}}, every piece at the location "--set".
YamlNode override_tree(const std::string& text) {
  const char* const form = "write --set section.key=value";
  const size_t equals = text.find('=');
  if (equals == std::string::npos) fail_usage(text, "has no \"=\"", form);
  const std::string key(trim(std::string_view(text).substr(0, equals)));
  const std::vector<std::string> parts = split(key, '.');
  for (const std::string& part : parts) {
    if (part.empty()) fail_usage(text, "has an empty key", form);
  }
  if (trim(std::string_view(text).substr(equals + 1)).empty())
    fail_usage(text, "gives no value, as an empty variable of a shell does",
               cat("write ", key, "=null for the default, or ", key, "=\"''\" for an empty text"));
  const std::string source = "--set " + text;
  YamlNode node = parse_yaml(text.substr(equals + 1), source);
  node.location = {source, 0, 0};
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    YamlNode parent;
    parent.kind = Kind::kMap;
    parent.location = node.location;
    const Location at = node.location;
    parent.entries.push_back({.key = *part, .key_location = at, .value = std::move(node)});
    node = std::move(parent);
  }
  mark_overrides(node);
  return node;
}

Recipe finish(YamlNode tree, const std::string& name, const Merger& merger, const Catalog& catalog,
              const LoadOptions& options) {
  if (tree.kind == Kind::kNull) {
    tree.location = {name, 0, 0};
    if (!options.overrides.empty()) tree.kind = Kind::kMap;
  }
  std::vector<YamlNode> overrides;
  for (const std::string& text : options.overrides)
    expand_variables(overrides.emplace_back(override_tree(text)), options.variables);
  if (tree.kind == Kind::kMap)
    merger.merge_overrides(tree, overrides);  // what else it is, is told as it is read
  Recipe recipe = read_recipe(tree, catalog);
  check_recipe(recipe, catalog);
  return recipe;
}

}  // namespace

Recipe load_recipe_file(const fs::path& path, const Catalog& catalog, const LoadOptions& options) {
  const Merger merger(catalog);
  YamlNode tree = Extender(options.variables, merger).load(path, path.string());
  // Overrides change a recipe. An empty file, as a full disk or a pipe that was read before leaves it, is
  // none.
  if (tree.kind == Kind::kNull) {
    tree.location = {path.string(), 0, 0};
    return read_recipe(tree, catalog);
  }
  return finish(std::move(tree), path.string(), merger, catalog, options);
}

Recipe load_recipe_text(const std::string& text, const std::string& name, const Catalog& catalog,
                        const LoadOptions& options) {
  const Merger merger(catalog);
  YamlNode tree = Extender(options.variables, merger).resolve(parse_yaml(text, name), ".");
  return finish(std::move(tree), name, merger, catalog, options);
}

}  // namespace autotrain
