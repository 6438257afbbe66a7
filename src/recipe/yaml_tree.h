#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace autotrain {

/// Where a piece of YAML stands, counted from 1. `file` may be "--set".
struct Location {
  std::string file;
  int line = 0;
  int column = 0;
  std::string text() const;  ///< "recipe.yaml:3:7"; without a line, the file alone
};

/// @throws autotrain::Error with kBadRecipe, always.
[[noreturn]] void fail_at(const Location& at, std::string what, std::string hint = "");

struct YamlEntry;

/// YAML as a plain tree in which every piece knows where it stands. Aliases are already expanded.
struct YamlNode {
  enum class Kind { kNull, kScalar, kSequence, kMap };
  Kind kind = Kind::kNull;
  std::string scalar;
  bool quoted = false;  ///< a quoted scalar is text, whatever it looks like
  Location location;
  std::vector<YamlNode> items;     ///< of a sequence
  std::vector<YamlEntry> entries;  ///< of a map, in the order written, keys distinct

  const YamlEntry* find(std::string_view key) const;
};

struct YamlEntry {
  std::string key;
  Location key_location;
  YamlNode value;

  /// Inherited from a group that chose another row of its table: only keys common to all rows count.
  bool of_other_row = false;

  /// Given by an override: what stands there counts whichever row is chosen.
  bool of_override = false;
};

/// Parses one document. An empty text is a null node.
/// @throws Error(kBadRecipe) with the location for bad syntax, duplicate keys, keys that are not
/// plain text, several documents, aliases to themselves, and trees that are too deep or, with aliases
/// expanded, too large.
YamlNode parse_yaml(const std::string& text, const std::string& file);

}  // namespace autotrain
