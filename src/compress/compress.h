#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compress/method.h"
#include "study/trained_run.h"

namespace autotrain {

/// What is made smaller, how, and how long its speed is measured.
struct CompressRequest {
  RunChoice run = {};
  std::vector<std::string> overrides = {};      ///< of the run's recipe
  std::vector<CompressionMethod> methods = {};  ///< besides which the weights as they are are measured
  std::filesystem::path folder = {};            ///< that the files are written into
  std::optional<int64_t> samples = {};          ///< of the validation data, the first; nothing: all
  std::vector<int64_t> batches = {1, 64};       ///< samples of a forward pass
  double seconds = 0.5;                         ///< of a measurement of a batch
  int64_t rounds = 3;                           ///< in which all methods take turns; 0: speed is not measured
  std::function<void(const std::string& what)> on_step = [](const std::string&) {};
};

/// How fast forward passes of one size are.
struct CompressedRate {
  int64_t batch = 0;
  double samples_per_second = 0;  ///< the median of the rounds
  double spread = 0;              ///< the best round's less the worst one's ÷ the median
  int64_t rounds = 0;
};

/// The weights made smaller by one method.
struct CompressedModel {
  std::string method = {};
  std::string file = {};
  std::string refused = {};  ///< why the method is not for this model; else the rest is there
  std::map<std::string, double> figures = {};  ///< of the validation data; empty: there are none
  std::vector<std::string> left_whole = {};    ///< weights that matter and stay as they are
  std::string taken_out = {};  ///< of pruned channels and heads: "12 of 48 outputs of 2 layers"
  int64_t changed = 0;         ///< weights, or of pruned channels: layers that got smaller
  int64_t bytes = 0;           ///< of the file
  double ratio = 1;            ///< bytes of the uncompressed file ÷ those
  double flops_per_sample = 0;
  int64_t weight_bytes = 0;    ///< that a forward pass reads, kept as in the file (2:4 as zeros)
  double predicted_batch = 0;  ///< b*, docs/roofline.md; 0: nothing was measured
  int64_t packed_layers = 0;   ///< linear layers that compute with weights as they are kept
  std::vector<CompressedRate> rates = {};
};

struct CompressionResult {
  std::filesystem::path run = {};
  int64_t update = 0;  ///< of the checkpoint
  std::string precision = {}, processor = {};
  int64_t samples = 0;  ///< that figures are of; 0: there are no validation data
  std::vector<std::string> inputs_first =
      {};                                    ///< weights [in, out], whose inputs have the scales of few bits
  std::vector<CompressedModel> models = {};  ///< the uncompressed one first
};

/// Writes the files, measures each as it is read back, and says what came of it. A method that is not for
/// this model is a row that says so.
/// @throws Error(kInterrupted) after a signal; as run, data and model are loaded; Error(kInputOutput).
CompressionResult compress(const CompressRequest& request);

}  // namespace autotrain
