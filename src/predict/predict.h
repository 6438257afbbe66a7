#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "autotrain/plan.h"
#include "predict/prediction_file.h"
#include "study/trained_run.h"

namespace autotrain {

/// What is predicted, by what, and where it goes.
struct PredictOptions {
  RunChoice run;
  std::vector<std::string> overrides = {};  ///< of the run's recipe
  std::string data = "validation";          ///< or "train", a folder of images, an image, a table
  std::filesystem::path output = {};        ///< ends in .csv, .jsonl or .npy
  PredictionStart start = PredictionStart::kNew;

  std::optional<int64_t> batch = {};           ///< samples of a forward pass; unset: searched
  std::optional<double> latency_seconds = {};  ///< that a forward pass may take: bounds the search

  int64_t top = 1;                         ///< the likeliest so many classes
  bool probabilities = false;              ///< of all classes
  std::optional<double> least_score = {};  ///< of boxes that are written; unset: 0.25

  /// Search in a process of its own: for processes that have not computed with LibTorch yet.
  bool search_apart = false;
};

/// What became of a prediction.
struct PredictionSummary {
  bool already_whole = false;  ///< there was nothing to resume: the file is whole, and the rest is empty
  int64_t update = 0;          ///< of the checkpoint
  int64_t samples = 0;         ///< rows of the file
  int64_t resumed_from = 0;    ///< of them, those that were there before
  int64_t batch = 0;           ///< as it ended
  int64_t oom_recoveries = 0;
  double seconds = 0;  ///< of the rows that were made now
  double samples_per_second = 0;
  int64_t budget_bytes = 0;
  std::optional<SearchResult> search = {};  ///< of the batch; nothing where a stopped prediction had it
};

/// Is told how a prediction goes.
struct PredictionListener {
  std::function<void(int64_t batch)> on_trial = [](int64_t) {};

  /// After every batch. @param from the first sample that was predicted now.
  std::function<void(int64_t done, int64_t total, int64_t from)> on_batch = [](int64_t, int64_t, int64_t) {};
};

/// Predicts every sample and writes a row for each. When memory runs out, the same samples are run again in
/// batches of half the size.
/// @throws Error(kInterrupted) after a signal, with what is done kept; Error(kDoesNotFit) when memory does
/// not suffice for one sample; Error(kUsage) about options and what stands at `output`; as run, data and
/// model are loaded.
PredictionSummary predict(const PredictOptions& options, const PredictionListener& listener = {});

}  // namespace autotrain
