#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace autotrain {

/// The samples that sharpness is measured on, where the training data has so many.
inline constexpr int64_t kSharpnessSamples = 1024;

/// Lengths of steps along random directions, relative to the weights.
inline constexpr std::array kSharpnessSteps = {0.05, 0.1, 0.2};

/// How sharp the minimum is in which weights lie (docs/compare.md).
struct Sharpness {
  std::string unavailable = {};  ///< why the rest is not there; "": it is
  int64_t samples = 0;
  double loss = 0;              ///< of the samples
  double eigenvalue = 0;        ///< the Hessian's largest, in loss ÷ weight²
  double eigenvalue_error = 0;  ///< an eigenvalue lies within it
  int64_t products = 0;         ///< with the Hessian that this took
  double square = 0;            ///< squared norm of the weights that learn

  /// By step and direction: the loss there less `loss`.
  std::vector<std::vector<double>> rises = {};

  /// The eigenvalue where weights are measured by their norm: a curvature along relative steps.
  double relative_eigenvalue() const { return eigenvalue * square; }
};

nlohmann::ordered_json sharpness_to_json(const Sharpness& sharpness);

/// @throws nlohmann::json::exception when a field is missing or of the wrong type.
Sharpness sharpness_from_json(const nlohmann::ordered_json& json);

/// A column of tables and files. Of sharpness that is unavailable, `of` is NaN.
struct SharpnessFigure {
  const char* name;
  const char* heading;
  double (*of)(const Sharpness& sharpness);
};

const std::vector<SharpnessFigure>& sharpness_figures();

}  // namespace autotrain
