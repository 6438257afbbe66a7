#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "autotrain/operator_counts.h"
#include "autotrain/recipe.h"
#include "data/loader.h"
#include "device/device.h"

namespace autotrain {

/// How long batches travel.
struct CopySeconds {
  double to_device = 0;
  double to_host = 0;  ///< of what the model returns
};

/// What a sweep measures: something that can be done over and over with one batch.
class Subject {
 public:
  virtual ~Subject() = default;

  virtual Device& device() = 0;
  virtual Precision precision() const = 0;  ///< resolved

  /// Puts so many samples on the device, the data set's first ones, repeated where it has fewer.
  virtual void load(int64_t samples) = 0;

  /// Forgets that batch, and what calls returned.
  virtual void drop() = 0;

  /// One call with that batch. Does not wait for the device. Precondition: a batch was loaded.
  virtual void call() = 0;

  /// From now on calls with this batch replay recorded kernels, where that is possible and faster.
  /// Precondition: a call was made. @return whether they do.
  virtual bool record_calls() { return false; }

  /// The operators of one call's forward pass, which it runs.
  virtual ForwardCount count() = 0;

  /// The operators of a whole call, which it runs; nothing where not all of them can be observed, as the
  /// backward pass on a GPU, which threads of LibTorch's run. Precondition: a batch was loaded.
  virtual std::optional<ForwardCount> observe() = 0;

  /// Nothing on a CPU, where nothing is copied, and of training, whose loader copies ahead. Precondition: a
  /// call was made.
  virtual std::optional<CopySeconds> copy_seconds() { return std::nullopt; }

  /// Loss and metrics of the validation data; empty where there are none.
  virtual std::map<std::string, double> evaluate() { return {}; }
};

/// Inference taken apart, for work in which batches are loaded while others are computed.
class InferenceSubject : public Subject {
 public:
  /// The model, in evaluation mode.
  virtual torch::nn::Module& module() = 0;

  /// How a prediction would load: workers, batches ahead.
  virtual Loader::Options loading() const = 0;

  /// Batches of so many samples each, in the data set's order and without end: of the validation data, else
  /// of the training data. They are read anew in every epoch. This object must outlive the loader.
  virtual std::unique_ptr<Loader> open_loader(int64_t samples) = 0;

  /// Puts a loaded batch on the device, in the precision of the model and in the place of the one before.
  /// Does not wait for the device.
  virtual void take(const Batch& batch) = 0;

  /// What the last call returned, in main memory: [n, …] float32. Waits for the device. Precondition: a call
  /// was made.
  virtual torch::Tensor output() = 0;

  // The way of one batch without any state of this object: several threads may go it at once.

  /// So many of the samples that `open_loader` reads, from number `first` on, over and over; loaded by the
  /// calling thread, in main memory.
  virtual Batch read(int64_t first, int64_t samples) const = 0;

  /// Such a batch on the device, in the precision of the model. Does not wait for the device.
  virtual Batch moved(const Batch& batch) const = 0;

  /// What the model says of a batch that was moved, on the device. Does not wait for it.
  virtual torch::Tensor answer(const Batch& batch) = 0;
};

/// Gives a model its weights.
using FillWeights = std::function<void(torch::nn::Module& module)>;

/// What the recipe names, as inference whatever `recipe.sweep.mode` says. @throws as make_subject.
/// @param fill empty: the weights are those that the recipe names, else its first ones.
std::unique_ptr<InferenceSubject> make_inference_subject(const Recipe& recipe, const FillWeights& fill = {});

/// What the recipe names, in `recipe.sweep.mode`. Inference: forward passes in evaluation mode, without
/// gradients; in half precision the weights are converted once, in int8 those of linear layers. Training: an
/// update of one micro-batch at learning rate 0, so that every kernel runs and the weights stay.
/// @throws Error as loading, building and converting do.
std::unique_ptr<Subject> make_subject(const Recipe& recipe);

}  // namespace autotrain
