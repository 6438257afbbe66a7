#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "autotrain/recipe.h"
#include "sweep/serving_plan.h"
#include "sweep/serving_sweep.h"
#include "sweep/varied_recipes.h"

namespace autotrain {

/// A measurement of a sweep under load: of the times of batches where `rate` is 0.
struct ServingMeasurement {
  size_t variant = 0;
  Serving serving = {};
  double rate = 0;
  int64_t round = 0;

  bool is_times() const { return rate == 0; }
  std::string point() const;  ///< the same of all rounds
  std::string name() const;   ///< of its files
  std::string words() const;  ///< after the variant's label: ", batches of 1, at 50/s"
};

/// What is asked for, read and checked, and how each measurement of it is made.
class ServingWork {
 public:
  /// @throws Error as loading the recipe does; Error(kUsage) for an option that means nothing.
  explicit ServingWork(const ServingRequest& request);

  const ServingSweep& sweep() const { return sweep_; }  ///< without anything measured
  const std::vector<Serving>& lines() const { return lines_; }
  const std::vector<int64_t>& server_counts() const { return server_counts_; }
  int64_t rounds() const { return rounds_; }
  bool is_trace() const { return !trace_.empty(); }

  /// Those that were typed, or the trace's; empty: shares of what each line can serve.
  const std::vector<double>& rates() const { return rates_; }

  /// Of all lines with as many servers: batches up to the largest of them.
  ServingMeasurement times_of(size_t variant, int64_t servers) const;

  RequestCount requests_of(size_t variant, double rate) const;
  std::vector<double> arrivals_of(size_t variant, double rate, int64_t round) const;

  /// This object must outlive the run.
  StudyRun run_of(const ServingMeasurement& measurement) const;

 private:
  void read_rates();
  void read_lines(const Recipe& recipe);
  void make_variants(const Recipe& recipe);
  nlohmann::ordered_json definition_of(const ServingMeasurement& measurement) const;
  nlohmann::ordered_json measure(const ServingMeasurement& measurement) const;

  const ServingRequest& request_;
  ServingSweep sweep_;
  std::vector<Serving> lines_;
  std::vector<int64_t> server_counts_;
  int64_t rounds_ = 1;
  std::vector<double> rates_;
  std::vector<double> trace_;  // arrivals; empty: a Poisson process
  std::vector<VariedRecipe> variants_;
};

}  // namespace autotrain
