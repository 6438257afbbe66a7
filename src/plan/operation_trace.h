#pragma once

#include <string>
#include <vector>

#include "autotrain/recipe.h"
#include "autotrain/task.h"

namespace autotrain {

/// The module that a parameter of this name is of: "block0.conv" of "block0.conv.weight".
std::string owner_of(const std::string& parameter);

/// What each tensor operation of a forward pass made of each sample, in a few numbers: enough to find
/// where two passes part ways without keeping their activations.
class OperationTrace {
 public:
  struct Operation {
    std::string name;             ///< "aten::batch_norm"
    std::string module;           ///< owner of a parameter among its inputs, or the last such before it
    std::vector<double> samples;  ///< one figure a sample; empty when the result has no sample dimension
    int64_t rows = 0;             ///< first dimension of the result, over all batches
  };

  /// Runs the loss of each batch in turn and joins the samples of corresponding operations.
  OperationTrace(Task& task, const std::vector<Batch>& batches);

  const std::vector<Operation>& operations() const { return operations_; }

 private:
  std::vector<Operation> operations_;
};

/// A place in a model's forward pass; empty names: none.
struct OperationPlace {
  std::string operation = {};
  std::string module = {};
};

/// The first operation whose figures differ by more than `tolerance`, relative to their size. Empty
/// names when there is none.
OperationPlace first_difference(const OperationTrace& a, const OperationTrace& b, double tolerance);

/// The first operation of the batch's forward pass whose result is not finite.
OperationPlace first_non_finite(Task& task, const Batch& batch, Precision precision);

/// Where the batch's forward pass throws.
OperationPlace where_forward_throws(Task& task, const Batch& batch, Precision precision);

}  // namespace autotrain
