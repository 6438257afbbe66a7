#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "model/sampling.h"
#include "study/trained_run.h"

namespace autotrain {

/// What a trained run goes on with, and how.
struct GenerateOptions {
  RunChoice run;
  std::vector<std::string> overrides = {};  ///< of the run's recipe
  std::vector<std::string> prompts = {};    ///< texts, or numbers of tokens where the run learned from those
  int64_t tokens = 128;                     ///< that are generated for each, at most
  SamplingRule sampling = {};
  int64_t seed = 1;
  std::optional<int64_t> batch = {};  ///< sequences at once; unset: all of them, 32 at most
  std::filesystem::path output = {};  ///< a file that they will be written to; empty: none
};

/// What was made of one prompt.
struct GeneratedText {
  std::string prompt = {};
  std::string text = {};             ///< of the generated tokens, as far as they are text
  std::string whole = {};            ///< both
  std::vector<int64_t> tokens = {};  ///< that were generated
  bool ended = false;                ///< by the token that ends a text
};

struct GenerateSummary {
  int64_t update = 0;  ///< of the checkpoint
  std::vector<GeneratedText> texts = {};
  int64_t batch = 0;  ///< sequences at once
  int64_t tokens = 0;
  int64_t cache_bytes = 0;
  double seconds = 0;  ///< of generating, prompts included
};

/// Goes on with every prompt. What a sequence draws depends on the seed and its place among the prompts
/// alone.
/// @param on_pass called after each pass of the model with the number of tokens so far.
/// @throws Error(kUsage) for prompts that the model cannot take, and an output that the run still needs,
/// Error(kBadRecipe) for a model that does not decode, Error(kDoesNotFit), Error(kInterrupted); as run and
/// model are loaded.
GenerateSummary generate(const GenerateOptions& options,
                         const std::function<void(int64_t done)>& on_pass = {});

}  // namespace autotrain
