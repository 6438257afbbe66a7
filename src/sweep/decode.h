#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "study/study.h"

namespace autotrain {

/// A step of decoding at one batch and one context, all rounds together: one further token for each of
/// `batch` sequences, each of which has `context` tokens with it.
struct DecodePoint {
  int64_t batch = 0;
  int64_t context = 0;
  std::string failure = {};  ///< why there are no figures; then the rest is empty
  int code = 0;              ///< exit code of what failed, or minus the signal that killed it

  double p50_seconds = 0, p99_seconds = 0;  ///< of a step: what a token takes whoever waits for it
  std::optional<double> half_width = {};    ///< of the median's 95 % interval, relative; nothing: too few
  std::optional<double> drift = {};         ///< the largest median of a round ÷ the smallest, less 1
  int64_t repeats = 0;
  double tokens_per_second = 0;  ///< batch ÷ median

  double prefill_seconds = 0;  ///< of `context` tokens of all sequences; the best of all passes
  double prefill_tokens_per_second = 0;

  /// Of models with experts, means over layers: distinct experts that the step read, how many an even gate
  /// makes it, and the tokens of the busiest expert ÷ their mean.
  std::optional<double> experts_read = {}, experts_expected = {}, busiest = {};

  int64_t weight_bytes = 0;     ///< that the step reads: of experts those that it read
  int64_t cache_bytes = 0;      ///< of all sequences
  double bytes_per_second = 0;  ///< measured, of reading that many over and over; the best of all rounds
  double reading_seconds = 0;   ///< both ÷ that: no step can be shorter
  std::optional<double> computing_seconds = {};  ///< operations ÷ the measured peak; nothing: no peak
  double reached = 0;                            ///< the longer of the two ÷ the median: 1 is the bound
  int64_t peak_bytes = 0;                        ///< above what the process had at its start

  double bound_seconds() const;

  /// Whether reading takes longer than computing.
  bool is_bound_by_reading() const;
};

/// Requests of unequal lengths in the slots of one cache, both ways of filling them in turns.
struct BatchingComparison {
  std::string failure = {};  ///< why there are no figures; then the rest is empty
  int64_t slots = 0;
  int64_t context = 0;
  int64_t requests = 0;
  int64_t tokens = 0;                                                     ///< generated for all of them
  double static_tokens_per_second = 0, continuous_tokens_per_second = 0;  ///< medians of the rounds
  double gain = 0;                                                        ///< their ratio
  int64_t static_steps = 0, continuous_steps = 0;
  double static_use = 0, continuous_use = 0;  ///< of the places in all steps, the share that made a token
  int64_t alone = 0;                          ///< requests that were also generated alone
  int64_t same_alone = 0;                     ///< of them, those whose tokens were the same
};

/// The recipe with one value of the varied key.
struct DecodeVariant {
  std::string value = {};
  std::string failure = {};  ///< why the model could not be measured
  std::string precision = {};
  int64_t weight_bytes = 0;        ///< that a step reads
  int64_t token_bytes = 0;         ///< of the cache, for one token of one sequence
  int64_t step_products = 0;       ///< multiplications with a weight for one token
  int64_t attention_products = 0;  ///< further ones for each token that it sees
  double peak_flops = 0;           ///< measured, of this precision; 0: none
  nlohmann::ordered_json machine = nullptr;
  std::vector<DecodePoint> points = {};
  std::optional<BatchingComparison> batching = {};

  /// The batch from which on reading the cache takes longer than reading the weights.
  double equal_batch(int64_t context) const;
};

struct DecodeSweep {
  std::string name = {};  ///< of the recipe
  std::string key = {};   ///< that is varied; empty: none
  int64_t unfinished = 0;
  std::vector<DecodeVariant> variants = {};
};

/// The rounds of one point as one.
DecodePoint summarise_decode(int64_t batch, int64_t context, const std::vector<StudyResult>& rounds);

/// Takes what was measured of the model, which may have failed.
void take_decoder(const StudyResult& result, DecodeVariant& variant);

/// Bounds and what was reached of them, once all points are there.
void analyse(DecodeSweep& sweep);

/// "execution.precision=bf16", or the recipe's name when nothing is varied.
std::string label_of(const DecodeSweep& sweep, const DecodeVariant& variant);

/// What came out, in sentences.
std::vector<std::string> sentences_of(const DecodeVariant& variant);

/// As docs/formats.md has them.
nlohmann::ordered_json to_json(const DecodeSweep& sweep);
std::string to_csv(const DecodeSweep& sweep);

/// From decode.json. @throws nlohmann::json::exception when it is none.
DecodeSweep decode_from_json(const nlohmann::ordered_json& json);

}  // namespace autotrain
