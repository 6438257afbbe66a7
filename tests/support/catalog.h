#pragma once

#include "recipe/keys.h"

namespace autotrain::test {

/// A small catalog that does not change when rows are added to the real one.
inline Catalog small_catalog() {
  Catalog c;
  c.datasets = {{"fashion_mnist",
                 "Images.",
                 {text_key("root", "Folder.", "/data"), integer_key("limit", "At most.").from(1)}},
                {"synthetic",
                 "Made up.",
                 {integer_key("samples", "Count.", 100).from(1),
                  list_key(KeyKind::kIntegerList, "shape", "Shape.", std::vector<int64_t>{28}).from(1)}}};
  c.models = {
      {"cnn", "Convolutions.", {integer_key("width", "Channels.", 32).from(1, 1024)}},
      {"mlp",
       "Layers.",
       {integer_key("depth", "Layers.", 2).from(1, 100), integer_key("width", "Units.", 256).from(1, 4096),
        real_key("dropout", "Probability.", 0.0).from(0, 0.99)}}};
  c.losses = {{"cross_entropy", "Softmax."}};
  c.optimizers = {{"adamw", "Adam.", {real_key("beta1", "Decay.", 0.9).from(0, 1)}},
                  {"sgd", "Gradient descent.", {real_key("momentum", "Decay.", 0.0).from(0, 1)}}};
  c.schedules = {{"constant", "Stays."}, {.name = "cosine", .sentence = "Falls.", .only_falls = true}};
  c.lr_rules = {{"linear", "Proportional."}, {"sqrt", "Root."}, {"none", "As it is."}};
  c.strategies = {{"binary", "Fills the band."}};
  return c;
}

}  // namespace autotrain::test
