#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "autotrain/batch.h"
#include "autotrain/task.h"
#include "model/adapter.h"
#include "recipe/keys.h"

namespace autotrain {

/// How a loss that a model computes itself counts the samples of its batch.
enum class LossReduction { kMean, kSum };

/// What a loss of a whole batch adds to an update. Each sample has the weight 1, so that a batch weighs as
/// much as it has samples: the loss must be their mean or their sum.
/// @param loss a tensor of one number.
LossTerms terms_of(const torch::Tensor& loss, LossReduction reduction, int64_t samples);

/// What a model says that computes its loss itself.
struct ModelsLoss {
  LossTerms terms;
  torch::Tensor prediction = {};  ///< in evaluation mode, where it makes one
};

/// What a forward pass keeps for the backward pass, at one batch.
struct RecomputedBytes {
  int64_t before = 0;     ///< bytes, where nothing is computed again
  int64_t kept = 0;       ///< bytes
  int64_t operators = 0;  ///< that run once more
};

/// A module of ours: one tensor in, one tensor of predictions out; some take several, and some compute their
/// loss, too.
class Network : public torch::nn::Module {
 public:
  virtual torch::Tensor forward(torch::Tensor inputs) = 0;

  /// What it predicts of a batch, of those inputs that it takes.
  virtual torch::Tensor predict(const Batch& batch) { return forward(batch.inputs); }

  /// Whether it computes its loss itself: then it is trained with `own_loss`.
  virtual bool has_own_loss() const { return false; }

  /// Whether it makes predictions beside a loss of its own.
  virtual bool predicts() const { return true; }

  /// Its own loss of a batch and, in evaluation mode, what it predicts. @throws Error(kBadRecipe) where it
  /// has none.
  virtual ModelsLoss own_loss(const Batch& batch);

  /// Freezes the parameters whose names match one of the patterns. Parts whose parameters are all frozen stay
  /// in evaluation mode, so that batch normalisation keeps its statistics.
  /// @throws Error(kBadRecipe) for a pattern that matches none, when nothing is left to learn, or where the
  /// model cannot do that.
  void freeze(const std::vector<std::string>& patterns);

  /// Gives the weights that the recipe matches adapters, which become parameters of the model, and freezes
  /// all else but what the recipe trains, as `freeze` does. Nothing where it matches none. A is drawn from
  /// LibTorch's CPU generator, uniform in ±1 ÷ √in, and B is zero: the model computes what it did.
  /// @throws Error(kBadRecipe) for a pattern that matches no name, or no weight of a linear layer.
  void adapt(const LoraRecipe& recipe);

  /// Those that `adapt` made, by the names of their weights.
  const std::map<std::string, std::shared_ptr<const Adapter>>& adapters() const { return adapters_; }

  /// Adds to the weights what their adapters change, and takes the adapters away: for inference.
  void merge_adapters();

  void train(bool on = true) override;

  /// Whether it can be computed so.
  virtual bool computes_in(Precision) const { return true; }

  /// Whether half precision is casts of its own under autocast, and its weights stay float32 for inference,
  /// too.
  virtual bool casts_itself() const { return false; }

  /// The fewest samples that it can be trained on at once, as far as it says.
  virtual int64_t smallest_batch() const { return 1; }

  /// Has its backward pass compute again, from now on, what its forward pass would keep for it and what is
  /// cheap to have again. Every gradient keeps its bits. The choice depends on the model and the shape of the
  /// samples alone. @param batch samples like those of training, on the model's device. @param precision of
  /// training.
  /// @throws Error(kBadRecipe) where it cannot.
  virtual RecomputedBytes recompute(const Batch& batch, Precision precision);

  /// Keeps everything again, from now on.
  virtual void keep() {}

  /// A text that differs where two networks of one recipe compute something else; "" where they cannot.
  virtual std::string fingerprint() const { return ""; }

  /// Whether its gradients are by code of the user's own, in this program.
  virtual bool is_users_own() const { return false; }

 protected:
  /// Why a matrix among the parameters can have no adapter; "" where it can.
  virtual std::string cannot_adapt(const torch::Tensor& weight) const;

  /// Computes with what the adapter makes of this weight from now on; null: with the weight.
  virtual void use(const torch::Tensor& weight, std::shared_ptr<const Adapter> adapter);

  /// Called when parameters were frozen. @throws Error(kBadRecipe) naming `key` where the model cannot do
  /// that.
  virtual void on_frozen(const char* key) { (void)key; }

 private:
  void freeze_those(const char* key, const std::function<bool(const NamedTensor&)>& freezes);
  void add_adapter(const NamedTensor& weight, const LoraRecipe& recipe);

  std::vector<torch::nn::Module*> frozen_;
  std::map<std::string, std::shared_ptr<const Adapter>> adapters_;
};

/// The network that a module is; null for a module of the user's own.
const Network* as_network(const torch::nn::Module& module);

/// What the samples look like that a model is built for.
struct SampleShape {
  std::vector<int64_t> input;  ///< of one sample: [C, H, W], [features] or [context]
  int64_t classes = 0;
  int64_t vocabulary = 0;                                  ///< > 0: inputs are tokens
  std::vector<InputInfo> inputs = {};                      ///< where there are several: all of them
  bool input_is_number = false, target_is_number = false;  ///< as in DatasetInfo

  /// `inputs`, or the only one, whose name is "inputs".
  std::vector<InputInfo> all_inputs() const;
};

struct ModelRow {
  ChoiceSpec spec;
  std::function<std::shared_ptr<Network>(const Parameters&, const SampleShape&)> make;

  /// Whether it is a program of its own, which may take several inputs, and compute its loss without targets.
  bool is_program = false;

  /// Whether it predicts once for a sample, and not for each of its positions or for boxes in it.
  bool predicts_once = true;
};

/// Every model a recipe can name. A model is added by a row here and a file beside it.
const std::vector<ModelRow>& model_table();

/// Adds a part of the program's own. To be called before anything refers to a row.
void add_row(ModelRow row);

/// Weights are drawn from LibTorch's CPU generator, which the caller seeds.
/// @throws Error(kBadRecipe) when the model cannot take such samples.
std::shared_ptr<Network> make_model(const Choice& choice, const SampleShape& shape);

/// @throws Error(kBadRecipe) where the data have no targets.
void check_has_targets(const std::string& model, const SampleShape& shape);

/// Says that `model` needs images (or tokens) and does not get them.
[[noreturn]] void fail_model(const std::string& model, const std::string& what, const std::string& hint);

}  // namespace autotrain
