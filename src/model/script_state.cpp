#include "model/script_state.h"

#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/passes/inliner.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <utility>

#include "autotrain/error.h"
#include "base/text.h"

namespace autotrain {
namespace {

namespace jit = torch::jit;

struct Attribute;
using Attributes = std::set<Attribute*>;

// What is known of a value. `was` and `of` are attributes as an earlier pass left them: those that it may be
// itself, and those that it was computed from.
struct Origin {
  bool is_pure = true;  // of constants, shapes and attributes alone
  Attributes was = {}, of = {};

  void join(const Origin& other) {
    is_pure &= other.is_pure;
    was.insert(other.was.begin(), other.was.end());
    of.insert(other.of.begin(), other.of.end());
  }
  Attributes all() const {
    Attributes both = was;
    both.insert(of.begin(), of.end());
    return both;
  }
};

// An attribute or a buffer, of one object.
struct Attribute {
  c10::intrusive_ptr<c10::ivalue::Object> owner;
  std::string attribute;
  std::string name;
  bool is_buffer = false;
  bool is_number = false;
  std::vector<Origin> written = {};  // what was put there
  bool is_assigned = false;
  bool is_read = false;   // as an earlier pass left it, for something else than itself
  bool is_asked = false;  // likewise, by a condition
  bool decides = false;   // as a number, on what samples or parameters go into
};

template <size_t N>
bool is_one_of(const jit::Node& node, const std::string_view (&names)[N]) {
  return std::ranges::find(names, std::string_view(node.kind().toQualString())) != std::end(names);
}

// Of their first input they take the shape, the type or the place.
bool takes_shape_of_first(const jit::Node& node) {
  static constexpr std::string_view kNames[] = {
      "aten::size",       "aten::dim",          "aten::numel",         "aten::stride",
      "prim::device",     "prim::dtype",        "prim::layout",        "prim::is_cuda",
      "prim::is_cpu",     "aten::get_device",   "aten::is_complex",    "prim::requires_grad",
      "prim::isinstance", "prim::TupleIndexOf", "aten::zeros_like",    "aten::ones_like",
      "aten::empty_like", "aten::full_like",    "aten::new_zeros",     "aten::new_ones",
      "aten::new_empty",  "aten::new_full",     "aten::is_contiguous", "aten::is_floating_point"};
  const bool has_shape =
      node.kind() == c10::aten::len && node.inputs()[0]->type()->isSubtypeOf(*c10::TensorType::get());
  return has_shape || is_one_of(node, kNames);
}

// Of their second input they take no more than that.
bool takes_shape_of_second(const jit::Node& node) {
  static constexpr std::string_view kNames[] = {"aten::to", "aten::type_as", "aten::expand_as",
                                                "aten::view_as", "aten::reshape_as"};
  return is_one_of(node, kNames) && node.inputs()[1]->type()->isSubtypeOf(*c10::TensorType::get());
}

bool asks_whether_it_is_there(const jit::Node& node) {
  static constexpr std::string_view kNames[] = {"aten::__is__", "aten::__isnot__"};
  return is_one_of(node, kNames);
}

// What comes out is what went in, in another type or place, or as an element of a list.
bool hands_on(const jit::Node& node) {
  static constexpr std::string_view kNames[] = {"prim::unchecked_cast",
                                                "prim::unchecked_unwrap_optional",
                                                "aten::_unwrap_optional",
                                                "aten::to",
                                                "aten::type_as",
                                                "aten::contiguous",
                                                "aten::clone",
                                                "aten::detach",
                                                "aten::alias",
                                                "aten::cpu",
                                                "aten::cuda",
                                                "aten::float",
                                                "prim::ListConstruct",
                                                "prim::TupleConstruct",
                                                "prim::ListUnpack",
                                                "prim::TupleUnpack",
                                                "prim::TupleIndex",
                                                "aten::list",
                                                "aten::append"};
  return is_one_of(node, kNames) || (node.kind() == c10::aten::__getitem__ &&
                                     node.inputs()[0]->type()->kind() != c10::TypeKind::TensorType);
}

// Writes that leave nothing of what stood there before.
bool overwrites(const jit::Node& node) {
  static constexpr std::string_view kNames[] = {"aten::copy_", "aten::fill_", "aten::zero_",
                                                "aten::_set_item", "aten::clear"};
  return is_one_of(node, kNames);
}

// Of a list or a dictionary nothing is left.
bool clears(const jit::Node& node) {
  static constexpr std::string_view kNames[] = {"aten::clear"};
  return is_one_of(node, kNames);
}

// Statistics, by a pointer of their own.
bool writes_statistics(const jit::Node& node) {
  static constexpr std::string_view kNames[] = {"aten::batch_norm", "aten::instance_norm"};
  return is_one_of(node, kNames);
}

bool writes_to(const jit::Node& node, size_t input) {
  const c10::FunctionSchema* const schema = node.maybeSchema();
  if (schema == nullptr || input >= schema->arguments().size()) return false;
  const c10::AliasInfo* const alias = schema->arguments()[input].alias_info();
  return alias != nullptr && alias->isWrite();
}

bool returns_alias(const jit::Node& node) {
  const c10::FunctionSchema* const schema = node.maybeSchema();
  return schema != nullptr && !schema->returns().empty() && schema->returns()[0].alias_info() != nullptr;
}

// What it returns may be a part of its first input, or that itself.
bool is_part_of_first(const jit::Node& node) {
  static constexpr std::string_view kNames[] = {"prim::unchecked_cast",   "prim::unchecked_unwrap_optional",
                                                "aten::_unwrap_optional", "prim::ListUnpack",
                                                "prim::TupleUnpack",      "prim::TupleIndex"};
  return !node.inputs().empty() && (returns_alias(node) || is_one_of(node, kNames));
}

// Whether a branch does nothing but print, warn or raise, whatever it asks.
bool only_tells(const jit::Node& branch) {
  const auto tells = [](const jit::Node* node) {
    static constexpr std::string_view kNames[] = {"prim::Print",    "aten::warn",   "prim::RaiseException",
                                                  "prim::Constant", "aten::format", "aten::str"};
    return is_one_of(*node, kNames);
  };
  return branch.outputs().empty() && std::ranges::all_of(branch.blocks(), [&](const jit::Block* block) {
           return std::ranges::all_of(block->nodes(), tells);
         });
}

bool always_raises(const jit::Block& block) {
  return std::ranges::any_of(block.nodes(),
                             [](const jit::Node* node) { return node->kind() == c10::prim::RaiseException; });
}

// Goes through a method in the order in which it runs, on every way through its branches at once.
class Walk {
 public:
  Walk(const jit::Module& module, const std::string& path) : path_(path) {
    const std::shared_ptr<jit::Graph> graph = inlined(*module.get_method("forward").graph());
    values_[graph->inputs()[0]].object = {module._ivalue(), ""};
    for (size_t i = 1; i < graph->inputs().size(); ++i) values_[graph->inputs()[i]].origin.is_pure = false;
    walk(*graph->block());
    for (const jit::Value* const value : graph->outputs()) read(origin_of(value));
  }

  std::vector<AssignedBuffer> conclude() {
    find_state();
    std::vector<AssignedBuffer> assigned;
    for (Attribute& attribute : attributes_) {
      const bool matters = (attribute.is_read || attribute.is_asked) && state_.contains(&attribute);
      if (matters && !attribute.is_buffer) refuse(attribute);
      if (attribute.is_buffer && attribute.is_assigned && state_.contains(&attribute))
        assigned.push_back({attribute.owner, attribute.attribute, attribute.name, matters});
    }
    return assigned;
  }

 private:
  using Key = std::pair<const c10::ivalue::Object*, std::string>;
  using Written = std::map<Attribute*, Origin>;  // on every way to here, and what

  struct Object {
    c10::intrusive_ptr<c10::ivalue::Object> object;  // null: not known
    std::string name;
  };

  struct Known {
    Origin origin = {};
    Object object = {};
    Attributes lies_in = {};            // that have its memory, or that of which it is a part
    const jit::Value* whole = nullptr;  // of which it is a part
  };

  [[noreturn]] void refuse(const Attribute& attribute) const {
    throw Error(
        ExitCode::kBadRecipe, path_,
        cat("keeps ", quote(attribute.name),
            ", which is no buffer, from one pass to the next: no checkpoint holds it"),
        "make it a buffer, of which changes are kept: self.register_buffer(name, torch.tensor(…)), and "
        "script it again");
  }

  std::shared_ptr<jit::Graph> inlined(jit::Graph& graph) {
    graphs_.push_back(graph.copy());
    jit::Inline(*graphs_.back());
    return graphs_.back();
  }

  const Origin& origin_of(const jit::Value* value) { return values_[value].origin; }

  Origin origin_of_inputs(const jit::Node& node, size_t first = 0) {
    Origin all;
    for (size_t i = first; i < node.inputs().size(); ++i) all.join(origin_of(node.inputs()[i]));
    return all;
  }

  Attribute& attribute_of(const Object& of, const std::string& name) {
    Attribute*& known = known_attributes_[{of.object.get(), name}];
    if (known == nullptr) {
      const auto type = of.object->type();
      const auto slot = type->findAttributeSlot(name);
      const c10::IValue value = of.object->getAttr(name);
      known = &attributes_.emplace_back(
          Attribute{.owner = of.object,
                    .attribute = name,
                    .name = of.name.empty() ? name : of.name + "." + name,
                    .is_buffer = slot && type->is_buffer(*slot) && value.isTensor(),
                    .is_number = value.isInt() || value.isBool() || value.isDouble() || value.isString()});
    }
    return *known;
  }

  // Notes that something else than these attributes themselves depends on them.
  void read(const Origin& origin) {
    for (Attribute* const attribute : origin.all()) attribute->is_read = true;
  }

  void ask(const Origin& origin) {
    for (Attribute* const attribute : origin.all()) attribute->is_asked = true;
  }

  void write(Attribute& to, Origin what) {
    for (const Origin& condition : conditions_) what.is_pure &= condition.is_pure;
    for (Attribute* const other : what.all()) {
      if (other != &to) other->is_read = true;
    }
    if (!what.is_pure) note_decisions();
    to.written.push_back(std::move(what));
  }

  void note_decisions() {
    for (const Origin& condition : conditions_) {
      for (Attribute* const attribute : condition.all()) attribute->decides |= attribute->is_number;
    }
  }

  void walk(const jit::Block& block) {
    for (const jit::Node* const node : block.nodes()) walk(*node);
  }

  void walk(const jit::Node& node) {
    switch (node.kind()) {
      case c10::prim::GetAttr: return get_attribute(node);
      case c10::prim::SetAttr: return set_attribute(node);
      case c10::prim::If: return branch(node);
      case c10::prim::Loop: return loop(node);
      case c10::prim::fork: return call(node, *node.g(c10::attr::Subgraph));
      case c10::prim::CallMethod: return call_method(node);
      default: return compute(node);
    }
  }

  void get_attribute(const jit::Node& node) {
    const std::string& name = node.s(c10::attr::name);
    const Known& from = values_[node.input()];
    Known& made = values_[node.output()];
    if (!from.object.object) {
      made.origin = from.origin;
      made.origin.is_pure = false;
      return;
    }
    const c10::IValue value = from.object.object->getAttr(name);
    if (value.isObject()) {
      made.object = {value.toObject(), from.object.name.empty() ? name : from.object.name + "." + name};
      return;
    }
    if (name == "training") {
      made.origin.is_pure = false;  // what training leaves, evaluations meet
      return;
    }
    if (is_parameter(from.object, name)) {
      made.origin.is_pure = false;
      return;
    }
    Attribute& attribute = attribute_of(from.object, name);
    const auto written = written_.find(&attribute);
    made.origin = written != written_.end() ? written->second : Origin{.was = {&attribute}};
    made.lies_in = {&attribute};
  }

  static bool is_parameter(const Object& object, const std::string& name) {
    const auto type = object.object->type();
    const auto slot = type->findAttributeSlot(name);
    return slot && type->is_parameter(*slot);
  }

  void set_attribute(const jit::Node& node) {
    const std::string& name = node.s(c10::attr::name);
    const Known& to = values_[node.inputs()[0]];
    const Known& from = values_[node.inputs()[1]];
    if (!to.object.object) {
      values_[node.inputs()[0]].origin.join(Origin(from.origin));
      return;
    }
    if (is_parameter(to.object, name)) {
      throw Error(
          ExitCode::kBadRecipe, path_,
          cat("assigns to its parameter ", quote(name), ", which is then no longer the one that learns"),
          "write to it in place, or make it a buffer, and script it again");
    }
    if (name == "training" || to.object.object->getAttr(name).isObject()) return;
    Attribute& attribute = attribute_of(to.object, name);
    attribute.is_assigned = true;
    write(attribute, from.origin);
    written_[&attribute] = from.origin;
  }

  void branch(const jit::Node& node) {
    const Origin condition = origin_of(node.input());
    if (only_tells(node)) return;
    ask(condition);
    conditions_.push_back(condition);
    const Written before = written_;
    std::vector<Written> after;
    for (const jit::Block* const block : node.blocks()) {
      written_ = before;
      walk(*block);
      if (!always_raises(*block)) after.push_back(std::move(written_));
    }
    for (const jit::Value* const value : node.outputs()) {
      const c10::TypeKind kind = value->type()->kind();
      if (kind == c10::TypeKind::IntType || kind == c10::TypeKind::FloatType) note_decisions();
    }
    conditions_.pop_back();
    written_ = after.empty() ? before : std::move(after[0]);
    if (after.size() == 2) keep_common(after[1]);
    for (size_t i = 0; i < node.outputs().size(); ++i) {
      Known made;
      for (const jit::Block* const block : node.blocks()) {
        if (!always_raises(*block)) join(made, values_[block->outputs()[i]]);
      }
      made.origin.is_pure &= condition.is_pure;
      if (node.outputs()[i]->type()->kind() == c10::TypeKind::BoolType)  // "a or b" is such a branch
        made.origin.join(computed(condition));
      values_[node.outputs()[i]] = std::move(made);
    }
  }

  // Where either way makes an object, it is the first one's.
  static void join(Known& known, const Known& other) {
    known.origin.join(other.origin);
    known.lies_in.insert(other.lies_in.begin(), other.lies_in.end());
    if (!known.object.object) known.object = other.object;
  }

  void keep_common(const Written& other) {
    std::erase_if(written_, [&](const auto& item) { return !other.contains(item.first); });
    for (auto& [attribute, origin] : written_) origin.join(other.at(attribute));
  }

  // Twice, since what the body hands on to itself may be of the body.
  void loop(const jit::Node& node) {
    const jit::Block& body = *node.blocks()[0];
    Origin condition = origin_of(node.inputs()[0]);
    condition.join(origin_of(node.inputs()[1]));
    std::vector<Known> carried;
    for (size_t i = 2; i < node.inputs().size(); ++i) carried.push_back(values_[node.inputs()[i]]);
    const Written before = written_;
    for (int round = 0; round < 2; ++round) {
      ask(condition);
      values_[body.inputs()[0]].origin = condition;
      for (size_t i = 0; i < carried.size(); ++i) values_[body.inputs()[i + 1]] = carried[i];
      conditions_.push_back(condition);
      walk(body);
      conditions_.pop_back();
      condition.join(origin_of(body.outputs()[0]));
      for (size_t i = 0; i < carried.size(); ++i) join(carried[i], values_[body.outputs()[i + 1]]);
      written_ = before;
    }
    for (size_t i = 0; i < carried.size(); ++i) {
      carried[i].origin.is_pure &= condition.is_pure;
      values_[node.outputs()[i]] = carried[i];
    }
  }

  // What Inline left: a method of a part that is known by its interface alone.
  void call_method(const jit::Node& node) {
    const Object& of = values_[node.inputs()[0]].object;
    jit::Function* const method =
        of.object ? of.object->type()->findMethod(node.s(c10::attr::name)) : nullptr;
    if (method == nullptr) return compute(node);
    call(node, *jit::toGraphFunction(*method).graph());
  }

  void call(const jit::Node& node, jit::Graph& graph) {
    const std::shared_ptr<jit::Graph> called = inlined(graph);
    for (size_t i = 0; i < called->inputs().size(); ++i)
      values_[called->inputs()[i]] = values_[node.inputs()[i]];
    walk(*called->block());
    Known made;
    for (const jit::Value* const output : called->outputs()) join(made, values_[output]);
    for (const jit::Value* const output : node.outputs()) values_[output] = made;
  }

  void compute(const jit::Node& node) {
    for (const jit::Block* const block : node.blocks()) walk(*block);
    Origin made = origin_of_result(node);
    if (!made.is_pure) note_decisions();
    write_in_place(node, made);
    for (const jit::Value* const output : node.outputs()) {
      Known& known = values_[output];
      known.origin = made;
      if (!is_part_of_first(node)) continue;
      const Known& whole = values_[node.inputs()[0]];
      known.lies_in = whole.lies_in;
      known.whole = whole.whole != nullptr ? whole.whole : node.inputs()[0];
    }
  }

  Origin origin_of_result(const jit::Node& node) {
    Origin made;
    if (takes_shape_of_first(node)) return computed(origin_of_inputs(node, 1));
    if (takes_shape_of_second(node)) return origin_of(node.inputs()[0]);
    made = origin_of_inputs(node);
    if (asks_whether_it_is_there(node)) made.is_pure = true;
    if (node.isNondeterministic()) made.is_pure = false;
    return hands_on(node) ? made : computed(made);
  }

  static Origin computed(const Origin& origin) {
    return {.is_pure = origin.is_pure, .was = {}, .of = origin.all()};
  }

  void write_in_place(const jit::Node& node, const Origin& made) {
    for (size_t i = 0; i < node.inputs().size(); ++i) {
      const bool statistics = writes_statistics(node) && (i == 3 || i == 4);
      if (!statistics && !writes_to(node, i)) continue;
      Known& target = values_[node.inputs()[i]];
      Origin what = made;
      if (overwrites(node)) what = computed(origin_of_inputs(node, i + 1));
      for (Attribute* const attribute : Attributes(target.lies_in)) {
        Origin there = what;
        const auto written = written_.find(attribute);
        if (clears(node) && target.whole == nullptr) {
          written_[attribute] = what;
        } else if (written != written_.end()) {
          written->second.join(what);
          there = written->second;
        } else if (!overwrites(node)) {
          there.of.insert(attribute);
        }
        write(*attribute, std::move(there));
      }
      target.origin.join(what);
      if (target.whole != nullptr) values_[target.whole].origin.join(what);
    }
  }

  // What is made of state is state.
  void find_state() {
    size_t found = 0;
    do {
      found = state_.size();
      for (Attribute& attribute : attributes_) {
        if (is_state(attribute)) state_.insert(&attribute);
      }
    } while (state_.size() > found);
  }

  bool is_state(Attribute& attribute) const {
    const bool is_flag = attribute.is_number && (attribute.decides || attribute.is_read);
    return !attribute.written.empty() &&
           (is_flag || std::ranges::any_of(attribute.written, [&](const Origin& origin) {
              return !origin.is_pure || origin.of.contains(&attribute) ||
                     std::ranges::any_of(origin.all(), [&](Attribute* other) {
                       return other != &attribute && state_.contains(other);
                     });
            }));
  }

  const std::string& path_;
  std::vector<std::shared_ptr<jit::Graph>> graphs_;  // whose values are known
  std::map<const jit::Value*, Known> values_;
  std::deque<Attribute> attributes_;
  std::map<Key, Attribute*> known_attributes_;
  Written written_;
  std::vector<Origin> conditions_;  // under which a node runs
  Attributes state_;
};

}  // namespace

std::vector<AssignedBuffer> assigned_buffers(const jit::Module& module, const std::string& path) {
  return Walk(module, path).conclude();
}

}  // namespace autotrain
