#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <torch/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace autotrain::graph {

/// The values that a graph is given, in this order: parameters, buffers, constants, the inputs, where the
/// module computes its loss the targets, too, and, for training, the gradient of the output.
struct Given {
  size_t parameters = 0;
  size_t buffers = 0;  ///< only these, and what a graph makes itself, may be written to
  size_t constants = 0;
  size_t inputs = 1;  ///< with the targets, which come last
  bool loss = false;  ///< whether the output is a loss, not a prediction
  bool training = false;

  size_t count_in_forward() const { return parameters + buffers + constants + inputs; }
};

/// Arithmetic on the sizes of tensors and what is computed from them: whole or real numbers, or truths.
enum class SizeOperator {
  kAdd,
  kSub,
  kMul,
  kFloordiv,
  kMod,
  kTruediv,
  kNeg,
  kPow,
  kAbs,
  kMax,
  kMin,
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kAnd,
  kOr,
  kNot,
  kIte,  ///< the second operand where the first is true, else the third
  kInt,  ///< towards zero
  kFloat,
  kFloor,
  kCeil,
  kRound,  ///< halves to the even number
  kSqrt
};

/// An item of a list: a value, or what stands in the file in its place, a number or nothing.
struct Element {
  std::optional<size_t> value = {};
  c10::IValue literal = {};
};

struct Argument {
  enum class Kind {
    kLiteral,
    kDevice,  ///< that of the run
    kValue,
    kTensorOfNumber,  ///< a number where the operator takes a tensor
    kRealOfNumber,    ///< a number where the operator takes a real one
    kIntegers,
    kTensors,
    kOptionalTensors
  };
  Kind kind = Kind::kLiteral;
  c10::IValue literal = {};
  size_t value = 0;
  std::vector<Element> elements = {};

  bool takes_value() const {
    return kind == Kind::kValue || kind == Kind::kTensorOfNumber || kind == Kind::kRealOfNumber;
  }

  /// Calls `use` with the number of every value that the argument takes.
  template <class Use>
  void for_each_value(Use use) const {
    if (takes_value()) use(value);
    for (const Element& element : elements) {
      if (element.value) use(*element.value);
    }
  }
};

/// A value that may be kept in a smaller form.
struct KeptValue {
  size_t value = 0;
  bool drawn = false;  ///< zeros, and one other number: what dropout multiplies by
};

struct Node {
  std::string name = {};
  std::optional<c10::OperatorHandle> op = {};  ///< none: the size operator
  SizeOperator size_operator = SizeOperator::kAdd;
  std::vector<Argument> arguments = {};
  bool has_effect = false;          ///< beside its results: it writes to an argument, or draws random numbers
  bool draws = false;               ///< random numbers
  std::vector<size_t> writes = {};  ///< values that it writes to
  std::vector<size_t> statistics = {};  ///< its arguments that are running statistics, which it only keeps up
  bool returns_list = false;  ///< whether the operator returns one list, whose items are the results
  std::vector<std::optional<size_t>> results = {};
  std::vector<size_t> last_uses = {};   ///< values that no later node uses
  std::optional<size_t> indices = {};   ///< the result that has places in the first argument
  std::vector<KeptValue> shrinks = {};  ///< values that only the backward half uses after this node
  std::vector<size_t> restores = {};    ///< of these, those that it is the first to use
};

/// When the backward half has a gradient.
struct ReadyGradient {
  size_t number = 0;  ///< among those of the parameters that learn
  size_t end = 0;     ///< no node from this one on touches its memory
};

/// Operators of LibTorch in the order in which eager PyTorch ran them for one module, forward and, for
/// training, backward, at a batch of any size. scripts/python/autotrain_export writes them.
struct Graph {
  Given given = {};
  std::vector<Node> nodes = {};
  size_t values = 0;
  std::vector<size_t> memory = {};   ///< by value: those of equal numbers may share memory
  std::vector<bool> is_tensor = {};  ///< by value; false: a size, or computed from sizes
  size_t backward_begin = 0;         ///< the first node that needs the gradient of the output
  size_t output = 0;                 ///< the prediction or, of a module with its loss inside, the loss
  bool keeps_output = false;         ///< whether the backward pass needs it
  std::optional<size_t> prediction_beside = {};       ///< beside a loss
  std::vector<std::optional<size_t>> gradients = {};  ///< of the parameters that learn, in their order
  std::vector<ReadyGradient> ready = {};  ///< all of them, in the order in which the backward half has them
};

/// A number as the tensor that PyTorch takes it for: one that decides no type.
torch::Tensor tensor_of_number(const c10::IValue& number);

}  // namespace autotrain::graph
