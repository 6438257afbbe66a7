#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "autotrain/error.h"
#include "cli/run_options.h"
#include "predict/generate.h"

namespace autotrain {

/// The options of `autotrain predict` that go with --prompt.
struct PromptOptions {
  std::vector<std::string> prompts;  ///< texts, or @ and the name of a file
  int64_t tokens = 128;
  std::optional<double> temperature;
  std::optional<int64_t> top_k;
  std::optional<double> top_p;
  std::optional<int64_t> seed;

  void declare(CLI::App& app);

  /// Whether anything is to be generated.
  bool asked() const { return !prompts.empty(); }
};

/// Generates, and prints or writes what came of it.
/// @param output ends in .jsonl; empty: the terminal gets the texts.
ExitCode generate_text(const RunOptions& run, const PrintOptions& print, const PromptOptions& prompt,
                       std::optional<int64_t> batch, const std::filesystem::path& output, bool overwrite);

}  // namespace autotrain
