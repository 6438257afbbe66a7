#include "optim/rows.h"

namespace autotrain {

// Each is defined in a file of its name.
OptimizerRow sgd_row();
OptimizerRow adam_row();
OptimizerRow adamw_row();
OptimizerRow nadamw_row();
OptimizerRow lion_row();
OptimizerRow lars_row();
OptimizerRow lamb_row();

namespace {

std::vector<OptimizerRow>& all_optimizer_table() {
  static std::vector<OptimizerRow> table = {sgd_row(),  adam_row(), adamw_row(), nadamw_row(),
                                            lion_row(), lars_row(), lamb_row()};
  return table;
}

}  // namespace

const std::vector<OptimizerRow>& optimizer_table() {
  return all_optimizer_table();
}

void add_row(OptimizerRow row) {
  all_optimizer_table().push_back(std::move(row));
}

KeySpec decay_key(const char* name, const char* sentence, double fallback) {
  return real_key(name, sentence, fallback).from(0, 0.999999);
}

std::vector<KeySpec> adam_keys(double epsilon) {
  return {decay_key("beta1", "Decay of the running mean of gradients.", 0.9),
          decay_key("beta2", "Decay of the running mean of squared gradients.", 0.999),
          real_key("epsilon", "Added to the denominator.", epsilon).from(0, 1)};
}

KeySpec adapt_all_key() {
  return bool_key("adapt_all", "Also adapt the steps of biases and normalisation weights.", false);
}

}  // namespace autotrain
