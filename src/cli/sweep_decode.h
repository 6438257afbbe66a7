#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "autotrain/error.h"
#include "cli/common_options.h"

namespace autotrain {

/// The options of `autotrain sweep` that go with --decode.
struct DecodeOptions {
  bool decode = false;
  std::string contexts;
  std::optional<int64_t> requests;

  void declare(CLI::App& app);
};

/// Measures decoding in the place of forward passes. @param overrides of the recipe, all options in them.
/// @param output where the results go; empty: the first free folder in runs/.
ExitCode measure_decoding(const std::filesystem::path& config, const std::vector<std::string>& overrides,
                          const std::filesystem::path& output, const PrintOptions& print,
                          const DecodeOptions& options);

}  // namespace autotrain
