#pragma once

#include <string>
#include <vector>

#include "autotrain/batch.h"
#include "recipe/keys.h"

namespace autotrain {

struct SampleShape;

/// Which inputs of a sample a model is given, in the order in which it takes them.
class ChosenInputs {
 public:
  /// @param names those of `model.inputs`; empty: the only one that there is.
  /// @throws Error(kBadRecipe) for a name that the data do not have, with the nearest one, and where samples
  /// have several inputs and none is named.
  ChosenInputs(const std::vector<std::string>& names, const SampleShape& shape);

  /// What each of them is, in this order.
  const std::vector<InputInfo>& infos() const { return infos_; }

  /// Those of a batch, [n, …] each.
  std::vector<torch::Tensor> of(const Batch& batch) const;

 private:
  std::vector<InputInfo> infos_;
  std::vector<size_t> places_;
};

/// Whether a model that takes the one kind of inputs takes the other: it makes no difference whether numbers
/// have a dimension of their own in their file.
bool inputs_alike(const std::vector<InputInfo>& some, const std::vector<InputInfo>& others);

/// The key `inputs` of models that may take several.
KeySpec inputs_key();

/// Says that samples have several inputs and `model` takes one, unless they have one.
void check_takes_one_input(const std::string& model, const SampleShape& shape);

}  // namespace autotrain
