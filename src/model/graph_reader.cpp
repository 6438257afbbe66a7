#include "model/graph_reader.h"

#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "base/text.h"
#include "model/graph_uses.h"

namespace autotrain::graph {
namespace {

using Json = nlohmann::ordered_json;
using c10::IValue;
using c10::TypeKind;
using Kind = Argument::Kind;

constexpr size_t kMostValues = 10'000'000;

struct SizeOperatorRow {
  std::string_view name;
  SizeOperator op;
  size_t operands;
};

constexpr std::array kSizeOperators = {
    SizeOperatorRow{"add", SizeOperator::kAdd, 2},
    SizeOperatorRow{"sub", SizeOperator::kSub, 2},
    SizeOperatorRow{"mul", SizeOperator::kMul, 2},
    SizeOperatorRow{"floordiv", SizeOperator::kFloordiv, 2},
    SizeOperatorRow{"mod", SizeOperator::kMod, 2},
    SizeOperatorRow{"truediv", SizeOperator::kTruediv, 2},
    SizeOperatorRow{"neg", SizeOperator::kNeg, 1},
    SizeOperatorRow{"pow", SizeOperator::kPow, 2},
    SizeOperatorRow{"abs", SizeOperator::kAbs, 1},
    SizeOperatorRow{"max", SizeOperator::kMax, 2},
    SizeOperatorRow{"min", SizeOperator::kMin, 2},
    SizeOperatorRow{"eq", SizeOperator::kEq, 2},
    SizeOperatorRow{"ne", SizeOperator::kNe, 2},
    SizeOperatorRow{"lt", SizeOperator::kLt, 2},
    SizeOperatorRow{"le", SizeOperator::kLe, 2},
    SizeOperatorRow{"gt", SizeOperator::kGt, 2},
    SizeOperatorRow{"ge", SizeOperator::kGe, 2},
    SizeOperatorRow{"and", SizeOperator::kAnd, 2},
    SizeOperatorRow{"or", SizeOperator::kOr, 2},
    SizeOperatorRow{"not", SizeOperator::kNot, 1},
    SizeOperatorRow{"ite", SizeOperator::kIte, 3},
    SizeOperatorRow{"int", SizeOperator::kInt, 1},
    SizeOperatorRow{"float", SizeOperator::kFloat, 1},
    SizeOperatorRow{"floor", SizeOperator::kFloor, 1},
    SizeOperatorRow{"ceil", SizeOperator::kCeil, 1},
    SizeOperatorRow{"round", SizeOperator::kRound, 1},
    SizeOperatorRow{"sqrt", SizeOperator::kSqrt, 1},
};

// What is known of a value before anything runs.
struct ValueFacts {
  bool tensor = true;           // else a number
  bool writable = true;         // by operators that write in place
  bool needs_gradient = false;  // computed from the gradient of the output
  size_t memory = 0;            // values with the same number may share memory
};

c10::MemoryFormat memory_format_named(const std::string& name) {
  if (name == "contiguous_format") return c10::MemoryFormat::Contiguous;
  if (name == "preserve_format") return c10::MemoryFormat::Preserve;
  if (name == "channels_last") return c10::MemoryFormat::ChannelsLast;
  if (name == "channels_last_3d") return c10::MemoryFormat::ChannelsLast3d;
  throw Malformed(cat("is the memory format ", quote(name), ", which is not known here"));
}

// JSON has no such numbers.
double special_number(const std::string& text) {
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  throw Malformed(cat("is ", quote(text), ", which is no number"));
}

// A file names operators of LibTorch's own tensor library only, and of these none that opens files.
bool is_allowed(const std::string& name) {
  return name.starts_with("aten::") && name.find("file") == std::string::npos;
}

c10::OperatorHandle find_operator(const std::string& name, const std::string& overload) {
  if (!is_allowed(name)) throw Malformed("is no operator that a model file may use");
  const auto handle = c10::Dispatcher::singleton().findSchema({name, overload});
  if (!handle) throw Malformed("is no operator of this LibTorch");
  return *handle;
}

// Of another shape; one of another type has an overload of its own.
bool is_view(const std::string& name, const std::string& overload) {
  if (!overload.empty()) return false;
  return name == "aten::view" || name == "aten::_unsafe_view";
}

// These write to the running statistics without saying so in their schemas.
bool writes_statistics(const std::string& name, const std::string& argument) {
  const bool normalises =
      (name.find("batch_norm") != std::string::npos || name.find("instance_norm") != std::string::npos) &&
      name.find("backward") == std::string::npos;
  return normalises && (argument == "running_mean" || argument == "running_var");
}

// The names of what a value may share memory with; those of a list are of what it holds.
void add_sets(const c10::AliasInfo& info, std::set<std::string>& sets) {
  for (const c10::Symbol& set : info.beforeSets()) sets.insert(set.toQualString());
  for (const c10::AliasInfo& held : info.containedTypes()) add_sets(held, sets);
}

std::set<std::string> sets_of(const c10::Argument& argument) {
  std::set<std::string> sets;
  if (argument.alias_info() != nullptr) add_sets(*argument.alias_info(), sets);
  return sets;
}

// Whether a result may share memory with an argument, by what the schema says of both.
bool may_share(const c10::Argument& result, const c10::Argument& argument) {
  const std::set<std::string> of_result = sets_of(result), of_argument = sets_of(argument);
  if (of_result.empty() || of_argument.empty()) return false;
  const std::string any = c10::AliasInfo::wildcardSet().toQualString();
  return of_result.contains(any) || of_argument.contains(any) ||
         std::ranges::any_of(of_result, [&](const std::string& set) { return of_argument.contains(set); });
}

bool is_value(const Json& json) {
  return json.is_object() && json.contains("v");
}

bool is_default(const Json& json) {
  return json.is_object() && json.contains("default");
}

bool is_number(TypeKind kind) {
  return kind == TypeKind::IntType || kind == TypeKind::SymIntType || kind == TypeKind::FloatType ||
         kind == TypeKind::SymFloatType || kind == TypeKind::BoolType || kind == TypeKind::SymBoolType ||
         kind == TypeKind::NumberType;
}

const Json& list_at(const Json& json, const char* key) {
  const Json& list = json.at(key);
  if (!list.is_array()) throw Malformed(cat(quote(key), " is not a list"));
  return list;
}

template <class Item>
IValue list_of_literals(const Json& json) {
  if (!json.is_array()) throw Malformed("is not a list");
  c10::List<Item> list;
  for (const Json& item : json) list.push_back(item.get<Item>());
  return list;
}

// Types, layouts and memory formats are whole numbers to an operator.
std::optional<IValue> named_integer(const Json& json) {
  if (!json.is_object()) return std::nullopt;
  if (json.contains("dtype")) return static_cast<int64_t>(dtype_named(json.at("dtype")));
  if (json.contains("memory_format"))
    return static_cast<int64_t>(memory_format_named(json.at("memory_format")));
  if (!json.contains("layout")) return std::nullopt;
  if (json.at("layout") != "strided") throw Malformed("is a layout that is not known here");
  return static_cast<int64_t>(c10::kStrided);
}

// Reads the arguments of one operator. Which values there are so far is all that it needs to know.
class ArgumentReader {
 public:
  explicit ArgumentReader(const std::vector<ValueFacts>& values) : values_(values) {}

  Argument read(const Json& json, const c10::Argument& declared) const {
    c10::TypePtr type = declared.type();
    if (const auto optional = type->cast<c10::OptionalType>()) {
      if (json.is_null()) return {};
      type = optional->getElementType();
    }
    switch (type->kind()) {
      case TypeKind::TensorType: return tensor(json);
      case TypeKind::ListType: return list(json, *type, declared.N());
      case TypeKind::IntType:
      case TypeKind::SymIntType: return integer(json);
      case TypeKind::FloatType:
      case TypeKind::SymFloatType: return real(json);
      case TypeKind::NumberType: return scalar(json);
      case TypeKind::BoolType:
      case TypeKind::SymBoolType: return truth(json);
      case TypeKind::StringType: return {.literal = json.get<std::string>()};
      case TypeKind::DeviceObjType: return device(json);
      default: throw Malformed(cat("is of the type ", type->str(), ", which is not known here"));
    }
  }

  size_t value_at(const Json& json) const {
    const auto value = whole_number<size_t>(json);
    if (value >= values_.size()) throw Malformed(cat("takes value ", value, ", which is not made yet"));
    return value;
  }

  // What arithmetic on sizes takes: a whole or real number or a truth, or one that is computed.
  Argument number(const Json& json) const {
    if (json.is_boolean()) return {.literal = json.get<bool>()};
    if (is_value(json) || json.is_number_integer()) return integer(json);
    return {.literal = json.is_object() ? special_number(json.at("float")) : json.get<double>()};
  }

  // A whole number that stands in the file, or one that is computed from sizes.
  Argument integer(const Json& json) const {
    if (auto named = named_integer(json)) return {.literal = *std::move(named)};
    if (is_value(json)) return value(json, /*tensor=*/false);
    return {.literal = whole_number<int64_t>(json)};
  }

 private:
  Argument value(const Json& json, bool tensor) const {
    const size_t at = value_at(json.at("v"));
    if (values_[at].tensor != tensor) throw Malformed(tensor ? "is not a tensor" : "is not a number");
    return {.kind = Kind::kValue, .value = at};
  }

  static Argument device(const Json& json) {
    if (json != Json({{"device", "run"}})) throw Malformed("is not the device of the run");
    return {.kind = Kind::kDevice};
  }

  Argument scalar(const Json& json) const {
    if (json.is_boolean()) return {.literal = json.get<bool>()};
    if (is_value(json) || json.is_number_integer()) return integer(json);
    if (json.is_object() && json.contains("complex")) {
      const Json& parts = json.at("complex");
      return {.literal = c10::complex<double>(real(parts.at(0)).literal.toDouble(),
                                              real(parts.at(1)).literal.toDouble())};
    }
    return real(json);
  }

  Argument real(const Json& json) const {
    if (is_value(json)) {
      Argument made = value(json, /*tensor=*/false);
      made.kind = Kind::kRealOfNumber;
      return made;
    }
    return {.literal = json.is_object() ? special_number(json.at("float")) : json.get<double>()};
  }

  Argument truth(const Json& json) const {
    if (is_value(json)) return value(json, /*tensor=*/false);
    return {.literal = json.get<bool>()};
  }

  Argument tensor(const Json& json) const {
    if (!is_value(json)) return {.literal = tensor_of_number(scalar(json).literal)};
    const size_t at = value_at(json.at("v"));
    return {.kind = values_[at].tensor ? Kind::kValue : Kind::kTensorOfNumber, .value = at};
  }

  Argument list(const Json& json, const c10::Type& type, std::optional<int64_t> length) const {
    const c10::TypePtr of = type.castRaw<c10::ListType>()->getElementType();
    switch (of->kind()) {
      case TypeKind::IntType:
      case TypeKind::SymIntType: return integers(json, length);
      case TypeKind::TensorType: return tensors(json, Kind::kTensors);
      case TypeKind::OptionalType:
        if (of->castRaw<c10::OptionalType>()->getElementType()->kind() != TypeKind::TensorType) break;
        return tensors(json, Kind::kOptionalTensors);
      case TypeKind::BoolType: return {.literal = list_of_literals<bool>(json)};
      case TypeKind::FloatType: return {.literal = list_of_literals<double>(json)};
      default: break;
    }
    throw Malformed("is a list of a kind that is not known here");
  }

  // One number may stand for a list of a known length.
  Argument integers(const Json& json, std::optional<int64_t> length) const {
    Argument made{.kind = Kind::kIntegers};
    const auto element = [&](const Json& item) -> Element {
      const Argument number = integer(item);
      if (number.kind == Kind::kValue) return {.value = number.value};
      return {.literal = number.literal};
    };
    if (json.is_array()) {
      for (const Json& item : json) made.elements.push_back(element(item));
    } else {
      if (!length) throw Malformed("is not a list");
      made.elements.assign(static_cast<size_t>(*length), element(json));
    }
    return made;
  }

  Argument tensors(const Json& json, Kind kind) const {
    if (!json.is_array()) throw Malformed("is not a list");
    Argument made{.kind = kind};
    for (const Json& item : json) {
      const bool none = item.is_null() && kind == Kind::kOptionalTensors;
      made.elements.push_back(none ? Element() : Element{.value = value(item, /*tensor=*/true).value});
    }
    return made;
  }

  const std::vector<ValueFacts>& values_;
};

class GraphReader {
 public:
  explicit GraphReader(const Given& given) {
    graph_.given = given;
    const auto give = [&](size_t count, ValueFacts facts) {
      for (size_t i = 0; i < count; ++i) {
        facts.memory = values_.size();
        values_.push_back(facts);
      }
    };
    give(given.parameters, {.writable = false});
    give(given.buffers, {});
    give(given.constants + given.inputs, {.writable = false});
    if (given.training) give(1, {.writable = false, .needs_gradient = true});
  }

  Graph read(const Json& json, size_t gradients) {
    for (const Json& node : list_at(json, "nodes")) read_node(node);
    graph_.values = values_.size();
    for (const ValueFacts& value : values_) {
      graph_.memory.push_back(value.memory);
      graph_.is_tensor.push_back(value.tensor);
    }
    if (!backward_began_) {
      graph_.backward_begin = graph_.nodes.size();
      forward_values_ = values_.size();
    }
    graph_.output = output_at(json.at(graph_.given.loss ? "loss" : "prediction"));
    if (graph_.given.loss && json.contains("prediction"))
      graph_.prediction_beside = output_at(json.at("prediction"));
    const Json& results = list_at(json, "gradients");
    if (results.size() != gradients)
      throw Malformed(cat("there are ", results.size(), " gradients for ", gradients, " parameters"));
    for (const Json& result : results)
      graph_.gradients.push_back(result.is_null() ? std::nullopt : std::optional(result_at(result)));
    find_last_uses(graph_);
    return std::move(graph_);
  }

 private:
  // A tensor that an operator makes.
  size_t result_at(const Json& json) const {
    const size_t value = ArgumentReader(values_).value_at(json);
    if (!values_[value].tensor) throw Malformed(cat("value ", value, " is not a tensor"));
    if (value < graph_.given.count_in_forward() + (graph_.given.training ? 1 : 0))
      throw Malformed(cat("value ", value, " is given and not made"));
    return value;
  }

  size_t output_at(const Json& json) const {
    const size_t value = result_at(json);
    if (value < forward_values_) return value;
    throw Malformed("an output is not made before what needs its gradient");
  }

  void read_node(const Json& json) {
    const std::string name = json.at("op");
    const std::string overload = json.value("overload", "");
    Node node{.name = overload.empty() ? name : cat(name, ".", overload)};
    try {
      std::vector<ValueFacts> results = name.find(':') == std::string::npos
                                            ? read_size_operator(json, name, node)
                                            : read_operator(json, name, overload, node);
      const bool needs_gradient = any_value(node, [](const ValueFacts& v) { return v.needs_gradient; });
      if (needs_gradient && !std::exchange(backward_began_, true)) {
        graph_.backward_begin = graph_.nodes.size();
        forward_values_ = values_.size();
      }
      for (ValueFacts& result : results) result.needs_gradient = needs_gradient;
      add_results(list_at(json, "out"), std::move(results), node);
    } catch (const Malformed& error) {
      throw Malformed(cat("operator ", graph_.nodes.size(), ", ", node.name, ": ", error.what()));
    } catch (const nlohmann::json::exception& error) {
      throw Malformed(cat("operator ", graph_.nodes.size(), ", ", node.name, ": ", error.what()));
    }
    graph_.nodes.push_back(std::move(node));
  }

  template <class Test>
  bool any_value(const Node& node, Test test) const {
    bool any = false;
    for (const Argument& argument : node.arguments)
      argument.for_each_value([&](size_t value) { any |= test(values_[value]); });
    return any;
  }

  std::vector<ValueFacts> read_size_operator(const Json& json, const std::string& name, Node& node) const {
    const auto* const row = std::ranges::find(kSizeOperators, name, &SizeOperatorRow::name);
    if (row == kSizeOperators.end()) throw Malformed("is no operator on sizes that is known here");
    node.size_operator = row->op;
    const Json& operands = list_at(json, "args");
    if (operands.size() != row->operands) throw Malformed(cat("takes ", row->operands, " operands"));
    for (const Json& operand : operands) node.arguments.push_back(ArgumentReader(values_).number(operand));
    return {{.tensor = false}};
  }

  std::vector<ValueFacts> read_operator(const Json& json, const std::string& name,
                                        const std::string& overload, Node& node) {
    // A trace fixes whether a change of shape is a view, which depends on how the tensor lies in memory; with
    // channels last it lies otherwise. `reshape` gives the same numbers however it lies.
    node.op = find_operator(is_view(name, overload) ? "aten::reshape" : name, overload);
    const std::vector<c10::Argument>& declared = node.op->schema().arguments();
    const Json& arguments = list_at(json, "args");
    if (arguments.size() > declared.size()) throw Malformed(cat("takes ", declared.size(), " arguments"));
    for (size_t i = 0; i < declared.size(); ++i) {
      try {
        const bool given = i < arguments.size() && !is_default(arguments[i]);
        node.arguments.push_back(given ? ArgumentReader(values_).read(arguments[i], declared[i])
                                       : fallback(declared[i]));
        const bool writes = (declared[i].alias_info() != nullptr && declared[i].alias_info()->isWrite()) ||
                            writes_statistics(name, declared[i].name());
        if (writes) note_write(node.arguments.back(), node);
        if (writes_statistics(name, declared[i].name())) node.statistics.push_back(i);
        node.has_effect |= writes;
      } catch (const Malformed& error) {
        throw Malformed(cat("argument ", quote(declared[i].name()), " ", error.what()));
      }
    }
    if (!node.statistics.empty() && !learns_statistics(node)) {
      node.statistics.clear();
      node.writes.clear();
    }
    node.draws = node.op->hasTag(at::Tag::nondeterministic_seeded);
    node.has_effect |= node.draws;
    return results_of(node, is_view(name, overload));
  }

  // Batch normalisation in evaluation mode reads them.
  static bool learns_statistics(const Node& node) {
    const std::vector<c10::Argument>& declared = node.op->schema().arguments();
    for (size_t i = 0; i < declared.size(); ++i) {
      const bool tells = declared[i].name() == "training" || declared[i].name() == "use_input_stats";
      if (tells && node.arguments[i].literal.isBool()) return node.arguments[i].literal.toBool();
    }
    return false;
  }

  static Argument fallback(const c10::Argument& declared) {
    if (declared.default_value()) return {.literal = *declared.default_value()};
    if (declared.type()->kind() == TypeKind::OptionalType) return {};
    throw Malformed("is missing");
  }

  // Whoever made a view of what is written to wants to see what is written: a copy in its place would not.
  void note_write(const Argument& argument, Node& node) {
    if (argument.kind == Kind::kTensorOfNumber ||
        (argument.kind == Kind::kLiteral && !argument.literal.isNone()))
      throw Malformed("is written to, a number");
    argument.for_each_value([&](size_t value) {
      if (!values_[value].writable) throw Malformed("is written to, a parameter, a constant or the inputs");
      for (const size_t view : std::exchange(views_[values_[value].memory], {}))
        graph_.nodes[view].op = find_operator("aten::view", "");
      node.writes.push_back(value);
    });
  }

  // A result that may share memory with an argument may be written to only where that may.
  std::vector<ValueFacts> results_of(const Node& node, bool is_view) {
    const std::vector<c10::Argument>& declared = node.op->schema().arguments();
    std::vector<ValueFacts> results;
    for (const c10::Argument& result : node.op->schema().returns()) {
      ValueFacts facts{.tensor = !is_number(result.type()->kind()), .memory = next_memory_++};
      for (size_t i = 0; i < declared.size(); ++i) {
        if (!may_share(result, declared[i])) continue;
        node.arguments[i].for_each_value([&](size_t value) {
          facts.writable &= values_[value].writable;
          facts.memory = values_[value].memory;
        });
      }
      if (is_view) views_[facts.memory].push_back(graph_.nodes.size());
      results.push_back(facts);
    }
    return results;
  }

  void add_results(const Json& numbers, std::vector<ValueFacts> results, Node& node) {
    if (node.op && results.size() == 1 &&
        node.op->schema().returns()[0].type()->kind() == TypeKind::ListType) {
      node.returns_list = true;
      results.resize(numbers.size(), results[0]);
    }
    if (numbers.size() != results.size()) throw Malformed(cat("has ", results.size(), " results"));
    for (size_t i = 0; i < results.size(); ++i) {
      node.results.emplace_back();
      if (numbers[i].is_null()) continue;
      if (whole_number<size_t>(numbers[i]) != values_.size() || values_.size() >= kMostValues)
        throw Malformed(cat("makes another value than number ", values_.size(), ", the next one"));
      node.results.back() = values_.size();
      values_.push_back(results[i]);
    }
  }

  Graph graph_;
  std::vector<ValueFacts> values_;
  size_t next_memory_ = kMostValues;                  // those before are numbers of given values
  std::map<size_t, std::vector<size_t>> views_ = {};  // by memory: the nodes that run `reshape` for `view`
  bool backward_began_ = false;
  size_t forward_values_ = 0;  // those that there are when the backward pass begins
};

}  // namespace

torch::ScalarType dtype_named(const std::string& name) {
  constexpr std::array<std::pair<std::string_view, torch::ScalarType>, 12> kTypes = {{
      {"float32", torch::kFloat32},
      {"float64", torch::kFloat64},
      {"bfloat16", torch::kBFloat16},
      {"float16", torch::kFloat16},
      {"complex64", torch::kComplexFloat},
      {"complex128", torch::kComplexDouble},
      {"int64", torch::kInt64},
      {"int32", torch::kInt32},
      {"int16", torch::kInt16},
      {"int8", torch::kInt8},
      {"uint8", torch::kUInt8},
      {"bool", torch::kBool},
  }};
  for (const auto& [known, type] : kTypes) {
    if (known == name) return type;
  }
  throw Malformed(cat("is the type ", quote(name), ", which is not known here"));
}

torch::Tensor tensor_of_number(const IValue& number) {
  const auto type = number.isInt()             ? torch::kInt64
                    : number.isBool()          ? torch::kBool
                    : number.isComplexDouble() ? torch::kComplexDouble
                                               : torch::kFloat64;
  torch::Tensor tensor = at::scalar_tensor(number.toScalar(), torch::TensorOptions().dtype(type));
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

Graph read_graph(const Json& json, const Given& given, size_t gradients) {
  return GraphReader(given).read(json, gradients);
}

}  // namespace autotrain::graph
