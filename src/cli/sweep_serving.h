#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "autotrain/error.h"
#include "cli/common_options.h"

namespace autotrain {

/// The options of `autotrain sweep` that go with --rate or --trace.
struct ServingOptions {
  std::string rates = "auto";
  std::filesystem::path trace;
  std::string windows_ms = "0";
  std::string servers = "1";
  bool processes = false;
  bool load_ahead = false;
  double percentile = 99;
  int64_t tries = 6;

  void declare(CLI::App& app);
};

/// Measures a model under load in the place of forward passes. @param overrides of the recipe, all options in
/// them. @param output where the results go; empty: the first free folder in runs/. @param requests at each
/// rate. @param bound_options whether some were given that are of a bound.
ExitCode measure_under_load(const std::filesystem::path& config, const std::vector<std::string>& overrides,
                            const std::filesystem::path& output, const PrintOptions& print,
                            const ServingOptions& options, std::optional<int64_t> requests,
                            bool bound_options);

}  // namespace autotrain
