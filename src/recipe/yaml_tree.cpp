#include "recipe/yaml_tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <map>
#include <sstream>

#include "autotrain/error.h"
#include "base/text.h"

namespace autotrain {
namespace {

// Recipes have tens of keys. The bounds stop alias bombs and deep nesting long before they cost.
constexpr size_t kMostNodes = 200'000;  // a data.yaml may name tens of thousands of classes
constexpr size_t kDeepest = 32;

size_t node_count(const YamlNode& node) {
  size_t count = 1;
  for (const YamlNode& item : node.items) count += node_count(item);
  for (const YamlEntry& entry : node.entries) count += node_count(entry.value);
  return count;
}

// yaml-cpp's own Node loads duplicate keys and self-referring aliases without a word; its event
// interface shows both.
class TreeBuilder final : public YAML::EventHandler {
 public:
  explicit TreeBuilder(std::string file) : file_(std::move(file)) {}

  YamlNode take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add(node_at(mark, YamlNode::Kind::kNull), anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto target = anchors_.find(anchor);
    if (target == anchors_.end()) {
      fail_at(location(mark), "the alias refers to itself", "write the value out");
    }
    count_nodes(mark, target->second.second);
    YamlNode copy = target->second.first;
    add(std::move(copy), 0);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    YamlNode node = node_at(mark, YamlNode::Kind::kScalar);
    node.scalar = value;
    node.quoted = tag == "!";
    const bool null = !node.quoted && (value == "~" || value == "null" || value == "Null" ||
                                       value == "NULL" || value.empty());
    if (null) node.kind = YamlNode::Kind::kNull;
    count_nodes(mark, 1);
    add(std::move(node), anchor);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, YamlNode::Kind::kSequence, anchor);
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, YamlNode::Kind::kMap, anchor);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    YamlNode node;
    YAML::anchor_t anchor = 0;
    bool has_key = false;
    std::string key;
    Location key_location;
  };

  Location location(const YAML::Mark& mark) const { return {file_, mark.line + 1, mark.column + 1}; }

  YamlNode node_at(const YAML::Mark& mark, YamlNode::Kind kind) const {
    YamlNode node;
    node.kind = kind;
    node.location = location(mark);
    return node;
  }

  void count_nodes(const YAML::Mark& mark, size_t more) {
    nodes_ += more;
    if (nodes_ > kMostNodes) {
      fail_at(location(mark), cat("the document has more than ", kMostNodes, " values"),
              "aliases multiply what they refer to; write out what is needed");
    }
  }

  void open(const YAML::Mark& mark, YamlNode::Kind kind, YAML::anchor_t anchor) {
    if (stack_.size() >= kDeepest) fail_at(location(mark), cat("nested deeper than ", kDeepest, " levels"));
    count_nodes(mark, 1);
    if (expects_key()) fail_at(location(mark), "a key must be plain text");
    Open opened;
    opened.node = node_at(mark, kind);
    opened.anchor = anchor;
    stack_.push_back(std::move(opened));
  }

  void close() {
    Open closed = std::move(stack_.back());
    stack_.pop_back();
    add(std::move(closed.node), closed.anchor);
  }

  bool expects_key() const {
    return !stack_.empty() && stack_.back().node.kind == YamlNode::Kind::kMap && !stack_.back().has_key;
  }

  void add(YamlNode node, YAML::anchor_t anchor) {
    if (anchor != 0) anchors_[anchor] = {node, node_count(node)};
    if (stack_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& parent = stack_.back();
    if (parent.node.kind == YamlNode::Kind::kSequence) {
      parent.node.items.push_back(std::move(node));
    } else if (!parent.has_key) {
      add_key(parent, node);
    } else {
      parent.node.entries.push_back({parent.key, parent.key_location, std::move(node), false});
      parent.has_key = false;
    }
  }

  void add_key(Open& parent, const YamlNode& node) {
    if (node.kind != YamlNode::Kind::kScalar) fail_at(node.location, "a key must be plain text");
    if (node.scalar == "<<") {
      fail_at(node.location, "merge keys are not supported", "use extends: with a file of shared keys");
    }
    if (const YamlEntry* const first = parent.node.find(node.scalar)) {
      fail_at(node.location,
              cat("the key ", quote(node.scalar), " stands twice; first at ", first->key_location.text()),
              "keep one of them");
    }
    parent.has_key = true;
    parent.key = node.scalar;
    parent.key_location = node.location;
  }

  std::string file_;
  YamlNode root_;
  std::vector<Open> stack_;
  std::map<YAML::anchor_t, std::pair<YamlNode, size_t>> anchors_;
  size_t nodes_ = 0;
};

std::string line_of(const std::string& text, int number) {
  const std::vector<std::string> lines = split(text, '\n');
  return number < 0 || number >= std::ssize(lines) ? "" : lines[static_cast<size_t>(number)];
}

// Whether a value begins with a * that no quotes protect, as patterns of names do.
bool has_bare_pattern(std::string_view line) {
  char before = ' ';
  for (const char c : line) {
    if (c == '*' && (before == ' ' || before == '[' || before == ',')) return true;
    if (c == '#' || c == '"' || c == '\'') return false;
    before = c;
  }
  return false;
}

}  // namespace

std::string Location::text() const {
  return line > 0 ? cat(file, ":", line, ":", column) : file;
}

void fail_at(const Location& at, std::string what, std::string hint) {
  throw Error(ExitCode::kBadRecipe, at.text(), std::move(what), std::move(hint));
}

const YamlEntry* YamlNode::find(std::string_view key) const {
  for (const YamlEntry& entry : entries) {
    if (entry.key == key) return &entry;
  }
  return nullptr;
}

YamlNode parse_yaml(const std::string& text, const std::string& file) {
  WithoutLocale<std::istringstream> in(text);
  TreeBuilder builder(file);
  TreeBuilder unexpected(file);
  try {
    YAML::Parser parser(in);
    parser.HandleNextDocument(builder);
    if (parser.HandleNextDocument(unexpected)) {
      fail_at({file, 0, 0}, "holds more than one YAML document", "keep one recipe in a file");
    }
  } catch (const YAML::Exception& error) {
    const std::string line = line_of(text, error.mark.line);
    fail_at({file, error.mark.line + 1, error.mark.column + 1}, "not valid YAML: " + error.msg,
            has_bare_pattern(line)
                ? "put quotes around what begins with a *, which is an alias without them: \"*.x\""
                : "check indentation, colons and quotes near this place");
  }
  return builder.take();
}

}  // namespace autotrain
