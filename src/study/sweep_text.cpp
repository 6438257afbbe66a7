#include "base/text.h"
#include "base/units.h"
#include "study/sweep.h"
#include "study/sweep_analysis.h"
#include "study/sweep_tables.h"

namespace autotrain {
namespace {

constexpr double kFarOff = 2;  // times the prediction, or a part of it

std::string times(double factor) {
  return (factor < 10 ? brief(factor, 2) : fixed(factor, 0)) + " ×";
}

std::string knee_sentence(const SweepVariant& variant) {
  const Knee& knee = *variant.knee;
  const std::string at = brief(knee.batch, 3);
  if (!knee.reached) return cat("the knee is at ", at, " or beyond: throughput still rises");
  if (knee.below_range) return cat("the knee is at ", at, " or before, below the batches measured");
  return cat("the knee is at ", at);
}

// Why prediction and measurement differ as they do, in what was measured.
std::string explanation_sentence(const SweepVariant& variant) {
  const KneeExplanation& e = *variant.explanation;
  return cat(times(e.ratio), " the prediction of ", brief(variant.predicted, 3), " = ", times(e.slower),
             " (the shortest latency, compared with reading the weights; that many smallest operators take ",
             format_percent(e.calls, 0), " of it) × ", fixed(e.efficiency, 2),
             " (the best throughput, compared with the measured peak)");
}

bool far_off(double ratio) {
  return ratio > kFarOff || ratio < 1 / kFarOff;
}

std::string within_sentence(const Sweep& sweep, const SweepVariant& variant) {
  const double bound = *sweep.latency_ms / 1e3;
  const SweepPoint* const best = best_within(variant, bound);
  if (best == nullptr) return cat("no batch stays within ", shortest(*sweep.latency_ms), " ms");
  return cat("within ", shortest(*sweep.latency_ms), " ms the largest throughput is at batch ", best->batch,
             ": ", format_rate(best->samples_per_second), " samples/s, p99 ", milliseconds(best->p99_seconds),
             " ms");
}

}  // namespace

const SweepPoint* best_within(const SweepVariant& variant, double seconds) {
  const SweepPoint* best = nullptr;
  for (const SweepPoint& point : variant.points) {
    if (!point.failure.empty() || point.p99_seconds > seconds) continue;
    if (best == nullptr || point.samples_per_second > best->samples_per_second) best = &point;
  }
  return best;
}

std::vector<std::string> sentences_of(const Sweep& sweep, const SweepVariant& variant) {
  std::vector<std::string> sentences = latency_advice(latencies_of(variant));
  if (!variant.failure.empty()) sentences.push_back("no prediction: " + variant.failure);
  if (variant.knee) sentences.push_back(knee_sentence(variant));
  if (variant.explanation && far_off(variant.explanation->ratio))
    sentences.push_back(explanation_sentence(variant));
  if (sweep.latency_ms) sentences.push_back(within_sentence(sweep, variant));
  for (const SweepPoint& point : variant.points) {
    if (point.swapped_bytes > 0)
      sentences.push_back(cat("at batch ", point.batch, " ", format_bytes(point.swapped_bytes),
                              " were swapped out: its time is the disk's"));
  }
  return sentences;
}

std::string label_of(const Sweep& sweep, const SweepVariant& variant) {
  return sweep.key.empty() ? sweep.name : cat(sweep.key, "=", variant.value);
}

}  // namespace autotrain
