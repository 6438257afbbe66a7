#include "model/models.h"

#include "autotrain/error.h"
#include "model/chosen_inputs.h"

namespace autotrain {

// Each is defined in a file of its name.
ModelRow mlp_row();
ModelRow cnn_row();
ModelRow resnet_row(int64_t layers);  // 18, 34 or 50
ModelRow transformer_row();
ModelRow detector_row();
ModelRow yolo_model_row();
ModelRow exported_row();
ModelRow torchscript_row();

namespace {

std::vector<ModelRow>& all_model_table() {
  static std::vector<ModelRow> table = {mlp_row(),      cnn_row(),         resnet_row(18), resnet_row(34),
                                        resnet_row(50), transformer_row(), detector_row(), yolo_model_row(),
                                        exported_row(), torchscript_row()};
  return table;
}

}  // namespace

const std::vector<ModelRow>& model_table() {
  return all_model_table();
}

void add_row(ModelRow row) {
  all_model_table().push_back(std::move(row));
}

std::shared_ptr<Network> make_model(const Choice& choice, const SampleShape& shape) {
  for (const ModelRow& row : model_table()) {
    if (row.spec.name != choice.name) continue;
    if (!row.is_program) {
      check_has_targets(choice.name, shape);
      check_takes_one_input(choice.name, shape);
    }
    return row.make(Parameters(choice, row.spec), shape);
  }
  throw Error(ExitCode::kBadRecipe, "model.name", "there is no model named " + choice.name);
}

void check_has_targets(const std::string& model, const SampleShape& shape) {
  if (shape.classes > 0) return;
  fail_model(model, "has nothing to predict: the data have no targets", "name the targets below data.train");
}

RecomputedBytes Network::recompute(const Batch&, Precision) {
  throw Error(ExitCode::kBadRecipe, "execution.recompute",
              "is on, and this model has no blocks that can be computed again: transformers with experts and "
              "TorchScript have none",
              "set it to off; python -m autotrain_export makes a file of a PyTorch module that can");
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
