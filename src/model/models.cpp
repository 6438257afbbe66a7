#include "model/models.h"

#include "autotrain/error.h"

namespace autotrain {

const std::vector<ModelRow>& model_table() {
  static const std::vector<ModelRow> table = {mlp_row(),      cnn_row(),      resnet_row(18),
                                              resnet_row(34), resnet_row(50), transformer_row(),
                                              detector_row(), exported_row(), torchscript_row()};
  return table;
}

std::shared_ptr<Network> make_model(const Choice& choice, const SampleShape& shape) {
  if (shape.classes == 0) {
    fail_model(choice.name, "has nothing to predict: the data have no targets",
               "name the targets below data.train");
  }
  for (const ModelRow& row : model_table()) {
    if (row.spec.name == choice.name) return row.make(Parameters(choice, row.spec), shape);
  }
  throw Error(ExitCode::kBadRecipe, "model.name", "there is no model named " + choice.name);
}

void Network::train(bool on) {
  Module::train(on);
  for (torch::nn::Module* const part : frozen_) part->eval();
}

const Network* as_network(const torch::nn::Module& module) {
  return dynamic_cast<const Network*>(&module);
}

void fail_model(const std::string& model, const std::string& what, const std::string& hint) {
  throw Error(ExitCode::kBadRecipe, "model.name", model + " " + what, hint);
}

}  // namespace autotrain
