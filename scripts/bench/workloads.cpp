#include "workloads.h"

#include <stdexcept>

#include "data/datasets.h"
#include "model/losses.h"
#include "model/models.h"

namespace autotrain::bench {
namespace {

Choice images(const std::string& split, int64_t limit) {
  return {"fashion_mnist", {{"split", split}, {"limit", limit}, {"normalize", false}}};
}

Choice tokens(int64_t samples, int64_t first) {
  return {
      "synthetic",
      {{"kind", std::string("tokens")}, {"classes", int64_t{256}}, {"samples", samples}, {"first", first}}};
}

Choice model_of(const std::string& name) {
  if (name == "mlp") return {"mlp", {{"depth", int64_t{8}}, {"width", int64_t{1024}}}};
  if (name == "resnet") return {"resnet18", {{"stem", std::string("small")}}};
  if (name == "gpt") return {"transformer", {{"tied", false}}};
  throw std::invalid_argument("no workload " + name);
}

}  // namespace

Workload make_workload(const std::string& name) {
  Workload workload;
  const bool text = name == "gpt";
  workload.train = make_dataset(text ? tokens(60000, 0) : images("train", 60000), {});
  workload.validation =
      make_dataset(text ? tokens(514, 1 << 20) : images("test", name == "mlp" ? 10000 : 1000), {});
  const DatasetInfo info = workload.train->info();
  torch::manual_seed(0);
  workload.task = supervised(make_model(model_of(name), {info.input_shape, info.classes, info.vocabulary}),
                             cross_entropy());
  return workload;
}

Recipe plain_recipe() {
  Recipe recipe;
  recipe.optimizer.lr = 1e-3;
  recipe.evaluation.every = {Interval::Unit::kUpdates, 1e12};
  recipe.checkpoint.every = {Interval::Unit::kUpdates, 1e12};
  return recipe;
}

std::string argument(int argc, char** argv, const std::string& name, const std::string& fallback) {
  for (int i = 1; i + 1 < argc; ++i) {
    if ("--" + name == argv[i]) return argv[i + 1];
  }
  return fallback;
}

}  // namespace autotrain::bench
