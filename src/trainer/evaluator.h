#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "autotrain/task.h"
#include "data/loader.h"
#include "plan/workbench.h"

namespace autotrain {

/// The figures of a data set: "loss" and the task's metrics, each Σ sums ÷ Σ weights over all of it.
using Figures = std::map<std::string, double>;

/// Adds up what the batches of an evaluation give. Sums stay on the device; one read at the end.
class FigureSums {
 public:
  void add(const EvaluationTerms& terms);
  Figures figures() const;

 private:
  struct Sums {
    torch::Tensor sum = {}, weight = {};  // float64 scalars
    bool exponential = false;
  };
  void add(const std::string& name, const torch::Tensor& sum, const torch::Tensor& weight);

  std::map<std::string, Sums> sums_;
};

/// Whether a smaller value of the figure is better.
bool lower_is_better(const std::string& figure);

/// The names of the figures that an evaluation gives, from one sample.
std::vector<std::string> evaluation_names(const Workbench& bench);

/// Evaluates the validation data once, in pieces of `micro_batch`, in evaluation mode.
/// @param proceed called after every piece with the samples done; false stops the evaluation.
/// @return nothing when it was stopped.
std::optional<Figures> evaluate(const Workbench& bench, int64_t micro_batch,
                                const std::function<bool(int64_t samples)>& proceed);

}  // namespace autotrain
