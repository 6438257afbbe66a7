#include "model/chosen_inputs.h"

#include <algorithm>

#include "autotrain/error.h"
#include "base/text.h"
#include "model/models.h"

namespace autotrain {
namespace {

std::vector<std::string> names_of(const std::vector<InputInfo>& inputs) {
  std::vector<std::string> names;
  for (const InputInfo& input : inputs) names.push_back(input.name);
  return names;
}

}  // namespace

bool inputs_alike(const std::vector<InputInfo>& some, const std::vector<InputInfo>& others) {
  return std::ranges::equal(some, others, [](const InputInfo& a, InputInfo b) {
    b.is_number = a.is_number;
    return a == b;
  });
}

std::vector<InputInfo> SampleShape::all_inputs() const {
  if (!inputs.empty()) return inputs;
  return {{.name = "inputs",
           .type = vocabulary > 0 ? torch::kInt64 : torch::kFloat32,
           .shape = input,
           .is_number = input_is_number}};
}

ChosenInputs::ChosenInputs(const std::vector<std::string>& names, const SampleShape& shape) {
  const std::vector<InputInfo> there = shape.all_inputs();
  const std::vector<std::string> known = names_of(there);
  if (names.empty() && there.size() > 1) {
    throw Error(
        ExitCode::kBadRecipe, "model.inputs",
        cat("is not set, and samples of data.train have the inputs ", join(known, ", ")),
        cat("name those that the model takes, in its order: model.inputs: [", join(known, ", "), "]"));
  }
  for (const std::string& name : names.empty() ? known : names) {
    const auto found = std::ranges::find(known, name);
    if (found == known.end()) {
      const std::string near = nearest(name, known);
      throw Error(ExitCode::kBadRecipe, "model.inputs",
                  cat("names ", quote(name), "; samples of data.train have ", join(known, ", ")),
                  near.empty() ? "name one of these" : cat("did you mean ", quote(near), "?"));
    }
    places_.push_back(static_cast<size_t>(found - known.begin()));
    infos_.push_back(there[places_.back()]);
  }
}

std::vector<torch::Tensor> ChosenInputs::of(const Batch& batch) const {
  const std::vector<torch::Tensor> all = batch.all_inputs();
  std::vector<torch::Tensor> chosen;
  for (const size_t place : places_) chosen.push_back(all.at(place));
  return chosen;
}

KeySpec inputs_key() {
  return list_key(KeyKind::kTextList, "inputs",
                  "Inputs of a sample that it takes, in its order, where the data set has several: [image, "
                  "mask]; []: the only one.",
                  std::vector<std::string>{});
}

void check_takes_one_input(const std::string& model, const SampleShape& shape) {
  const std::vector<InputInfo> inputs = shape.all_inputs();
  if (inputs.size() == 1 && (inputs[0].type == torch::kFloat32 || shape.vocabulary > 0)) return;
  std::vector<std::string> there;
  for (const InputInfo& input : inputs)
    there.push_back(cat(input.name, " (", c10::toString(input.type), ")"));
  fail_model(model,
             cat("takes one input of float32 or of tokens; samples of data.train have ", join(there, ", ")),
             "give the data set one, or set model.name: exported or torchscript, which take any");
}

}  // namespace autotrain
