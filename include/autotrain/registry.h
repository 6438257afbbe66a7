#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "autotrain/data.h"
#include "autotrain/metrics.h"
#include "autotrain/recipe.h"
#include "autotrain/task.h"

namespace torch::optim {
class Optimizer;
}

namespace autotrain {

/// Parts of a program's own that recipes name as they name those of autotrain: with keys, ranges, defaults
/// and sentences, which `config`, `schema` and errors show.

/// A key of such a part, as `width: 256` below `model`. Its type is that of its default: a flag, an integer,
/// a number or a text.
struct OwnKey {
  std::string name = {};
  std::string sentence = {};  ///< what it is, for people
  Value fallback = {};        ///< bool, int64_t, double or std::string
  double least = -0x1p53;     ///< of numbers, included
  double most = 0x1p53;       ///< likewise
};

/// What a recipe gives the keys of a part. Asking for a key that the part does not declare, or as another
/// type, throws std::logic_error.
class OwnValues {
 public:
  explicit OwnValues(std::map<std::string, Value> values) : values_(std::move(values)) {}

  bool flag(const std::string& key) const { return get<bool>(key); }
  int64_t integer(const std::string& key) const { return get<int64_t>(key); }
  double real(const std::string& key) const { return get<double>(key); }
  const std::string& text(const std::string& key) const { return get<std::string>(key); }

 private:
  template <class Type>
  const Type& get(const std::string& key) const {
    const auto found = values_.find(key);
    if (found != values_.end() && std::holds_alternative<Type>(found->second))
      return std::get<Type>(found->second);
    throw std::logic_error("the key " + key + " is not declared as such");
  }

  std::map<std::string, Value> values_;
};

/// What every part of a program's own says of itself.
struct OwnPart {
  std::string name = {};      ///< in recipes; none of autotrain's own
  std::string sentence = {};  ///< what it is, for people
  std::vector<OwnKey> keys = {};
};

/// A module and how a batch becomes its predictions.
struct OwnNetwork {
  std::shared_ptr<torch::nn::Module> module = {};
  std::function<torch::Tensor(const Batch& batch)> forward = {};
};

struct OwnModel {
  OwnPart part = {};

  /// For samples like those of the training data. The first weights are drawn from the run's seed.
  std::function<OwnNetwork(const OwnValues& values, const DatasetInfo& samples)> make = {};
};

struct OwnDataset {
  OwnPart part = {};
  std::function<std::unique_ptr<Dataset>(const OwnValues& values)> make = {};
};

struct OwnLoss {
  OwnPart part = {};
  std::function<Loss(const OwnValues& values)> make = {};
};

/// A figure of evaluations; it has no keys.
struct OwnMetric {
  OwnPart part = {};
  std::vector<TargetKind> targets = {};  ///< with which it goes
  std::function<std::shared_ptr<const PredictionMetric>(const MetricOptions& options)> make = {};
};

/// The learning rate's factor after warm-up, a pure function of how many updates were applied since, and how
/// many there will be.
struct OwnSchedule {
  OwnPart part = {};
  std::function<std::function<double(double update, double length)>(const OwnValues& values)> make = {};
};

/// One parameter, to be updated.
struct OwnStep {
  const std::string& name;                   ///< in the model
  const torch::Tensor& parameter;            ///< to be changed in place
  const torch::Tensor& gradient;             ///< of the mean loss, clipped; may be overwritten
  const std::vector<torch::Tensor>& states;  ///< as OwnOptimizer names them, likewise
  double lr = 0;                             ///< of its group, in this update
  double weight_decay = 0;                   ///< 0 where it is not decayed
  int64_t update = 0;                        ///< applied ones, from 1
};

/// Applies an update parameter by parameter, without gradient mode. It is called for applied updates only,
/// and in trials on copies. What it throws half way ends the run at the last checkpoint. Not shared out over
/// ranks.
struct OwnOptimizer {
  OwnPart part = {};
  std::vector<std::string> states = {};  ///< kept for each parameter: tensors of its shape, zero at first
  bool adaptive = false;  ///< its step does not grow with the gradient: rates scale by the root

  std::function<std::function<void(const OwnStep& step)>(const OwnValues& values)> make = {};

  /// In the place of `make` and `states`: one of LibTorch's kind (`autotrain/torch_optimizer.h` says what it
  /// must do). Called for the parameters that have one rate and one decay; the recipe's rate is set at every
  /// update.
  std::function<std::unique_ptr<torch::optim::Optimizer>(
      const OwnValues& values, std::vector<torch::Tensor> parameters, double weight_decay)>
      make_torch = {};
};

struct Registry {
  std::vector<OwnModel> models = {};
  std::vector<OwnDataset> datasets = {};
  std::vector<OwnLoss> losses = {};
  std::vector<OwnMetric> metrics = {};
  std::vector<OwnSchedule> schedules = {};
  std::vector<OwnOptimizer> optimizers = {};
};

/// Makes recipes of this process know these parts. To be called before anything reads a recipe; may be called
/// again with others.
/// @throws Error(kUsage) for a name that is taken, empty or holds other than a-z, 0-9 and _, for a part or
/// key that is not whole, and when a recipe was read before.
void add_to_recipes(const Registry& registry);

}  // namespace autotrain
