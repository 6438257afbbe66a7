#include <algorithm>
#include <cmath>
#include <limits>

#include "base/text.h"
#include "base/units.h"
#include "report/column.h"
#include "sweep/sweep.h"
#include "sweep/sweep_analysis.h"
#include "sweep/sweep_tables.h"

namespace autotrain {
namespace {

constexpr double kFarOff = 2;         // times the prediction, or a part of it
constexpr double kSteady = 0.2;       // of the smallest median of a round, for the others to be above it
constexpr double kDoubtful = 1;       // likewise: twice as long, from where what is fastest may be chance
constexpr int64_t kCallsOfP99 = 100;  // of fewer, a 99th percentile is hardly more than the longest

std::string factor_text(double factor) {
  return factor < 10 ? brief(factor, 2) : fixed(factor, 0);
}

std::string times(double factor) {
  return factor_text(factor) + " times";
}

std::string knee_sentence(const SweepVariant& variant) {
  const Knee& knee = *variant.knee;
  const std::string at = brief(knee.batch, 3);
  if (!knee.reached) return cat("the knee is at ", at, " or beyond: throughput still rises");
  if (knee.below_range) return cat("the knee is at ", at, " or before, below the batches measured");
  return cat("the knee is at ", at);
}

bool far_off(double ratio) {
  return ratio > kFarOff || ratio < 1 / kFarOff;
}

// Where the time of one batch goes, and how near its products come to the peak.
std::string time_sentence(const SweepVariant& variant, int64_t batch, const std::string& of_bandwidth = "") {
  const SweepPoint& p = variant.point_of(batch);
  const auto between = p.between_share();
  if (!between || !p.products_flops_per_second) return "";
  return cat(": ", format_percent(*p.products_share, 0), " of it in products (",
             format_percent(*p.products_flops_per_second / variant.roof.flops_per_second, 0), " of the peak",
             of_bandwidth, "), ", format_percent(*p.others_share, 0), " in other operators, ",
             format_percent(*between, 0), " between operators");
}

// How near the products of the shortest latency come to the other edge.
std::string bandwidth_words(const Sweep& sweep, const SweepVariant& variant) {
  const SweepPoint& p = variant.point_of(variant.knee->flat_batch);
  if (sweep.mode != SweepMode::kInference || !p.products_share) return "";
  const double read = variant.weight_bytes / (*p.products_share * p.p50_seconds);
  return cat(", the weights at ", format_percent(read / variant.roof.bytes_per_second, 0),
             " of the bandwidth");
}

// Why prediction and measurement differ as they do, in what was measured.
std::vector<std::string> explanation_sentences(const Sweep& sweep, const SweepVariant& variant) {
  const KneeExplanation& e = *variant.explanation;
  const Knee& knee = *variant.knee;
  std::vector<std::string> sentences = {
      cat("that is ", times(e.ratio), " the predicted batch of ", brief(variant.predicted, 3),
          ", by two factors that multiply: ", factor_text(e.slower), " for the latency and ",
          factor_text(e.efficiency), " for the throughput")};
  if (variant.predicted < 1) {
    sentences.push_back(
        cat("computing one sample should take ", times(1 / variant.predicted),
            " the time of reading the weights, so the prediction says that no batch is free"));
  }
  sentences.push_back(cat("the shortest latency, of batch ", knee.flat_batch, ", is ", times(e.slower),
                          " that of reading the weights",
                          time_sentence(variant, knee.flat_batch, bandwidth_words(sweep, variant))));
  sentences.push_back(cat("the best throughput, of batch ", knee.best_batch, ", is ",
                          format_percent(e.efficiency, 1), " of what the peak allows",
                          time_sentence(variant, knee.best_batch)));
  return sentences;
}

std::string why_no_prediction(const SweepVariant& variant) {
  if (variant.flops_per_sample <= 0) return "the model computes no products";
  if (variant.weight_bytes <= 0) return "no operator of the model reads weights";
  return cat("the peak of ", variant.precision, " is not measured here: this device only emulates it");
}

std::string elsewhere_sentence(const Sweep& sweep, const SweepVariant& variant) {
  const std::string device = "a device of " + sweep.device_figures;
  if (variant.predicted_elsewhere == 0)
    return cat("no prediction for ", device, ": the model computes no products");
  return cat("on ", device, " the predicted batch is ", brief(variant.predicted_elsewhere, 3),
             ", from its data sheet alone");
}

std::string within_sentence(const Sweep& sweep, const SweepVariant& variant) {
  const double bound = *sweep.latency_ms / 1e3;
  const SweepPoint* const best = best_within(variant, bound);
  if (best == nullptr) return cat("no batch stays within ", shortest(*sweep.latency_ms), " ms");
  const std::string calls =
      best->repeats < kCallsOfP99
          ? cat(", of ", best->repeats,
                " calls alone, too few to have met one in a hundred: longer --seconds makes more")
          : "";
  return cat("within ", shortest(*sweep.latency_ms), " ms the largest throughput is at batch ", best->batch,
             ": ", format_rate(best->samples_per_second), " samples/s, p99 ", milliseconds(best->p99_seconds),
             " ms", calls);
}

// The point whose rounds lie farthest apart; null: no points.
const SweepPoint* unsteadiest(const SweepVariant& variant) {
  const auto found = std::ranges::max_element(
      variant.points, {}, [](const SweepPoint& point) { return point.drift.value_or(0); });
  return found == variant.points.end() ? nullptr : &*found;
}

// Of the batch with the most samples a second from the data set to outputs; "": none was measured.
std::string end_to_end_sentence(const SweepVariant& variant) {
  const auto best = std::ranges::max_element(variant.end_to_end, {}, [](const auto& measured) {
    return measured.second.samples_per_second;  // 0 of one that failed
  });
  if (best == variant.end_to_end.end() || !best->second.failure.empty()) return "";
  const EndToEnd& e = best->second;
  return cat("end to end, from the data to outputs, the most is ", format_rate(e.samples_per_second),
             " samples/s, at batch ", best->first, ", ", format_percent(e.samples_per_second / e.forward, 0),
             " of its forward pass alone: ", bound_in_words(e));
}

constexpr double kAlikeBudgets = 0.03;  // parts of one in which two may differ

// The batch that half the bytes make room for, beside that of fp32 under such a budget; "": one of both is
// not known, or no memory bounded it.
std::string capacity_sentence(const Sweep& sweep, const SweepVariant& variant) {
  if (sweep.key != "execution.precision" || variant.value == "fp32") return "";
  const auto fp32 = std::ranges::find(sweep.variants, "fp32", &SweepVariant::value);
  const auto bounded = [](const std::optional<LargestBatch>& largest) {
    return largest && largest->failure.empty() && largest->reason != SearchReason::kCap;
  };
  if (fp32 == sweep.variants.end() || !bounded(fp32->largest) || !bounded(variant.largest)) return "";
  const LargestBatch &whole = *fp32->largest, &other = *variant.largest;
  const auto budget = static_cast<double>(whole.budget_bytes);  // each is a share of what was free then
  if (std::abs(budget - static_cast<double>(other.budget_bytes)) > kAlikeBudgets * budget) return "";
  return cat(variant.value, " makes room for ",
             fixed(static_cast<double>(other.batch) / static_cast<double>(whole.batch), 2),
             " times the batch of fp32 within ", format_bytes(whole.budget_bytes), ": ",
             format_count(other.batch), " samples against ", format_count(whole.batch));
}

// Of the points during which it did.
std::vector<std::string> swap_sentences(const SweepVariant& variant) {
  std::vector<std::string> sentences;
  for (const SweepPoint& point : variant.points) {
    const PointMemory& memory = point.memory;
    if (!memory.swapped()) continue;
    sentences.push_back(cat("while batch ", point.batch, " was measured the machine read ",
                            format_bytes(static_cast<int64_t>(memory.swapped_in_bytes.value_or(0))),
                            " from its swap and wrote ",
                            format_bytes(static_cast<int64_t>(memory.swapped_out_bytes.value_or(0))),
                            " to it: the batch's time may be the disk's"));
  }
  return sentences;
}

std::string found_of(const Sweep& sweep, const SweepVariant& variant) {
  const std::string who = sweep.key.empty() ? "" : "With " + label_of(sweep, variant) + ": ";
  const SweepPoint* const best = best_within(variant, std::numeric_limits<double>::infinity());
  if (best == nullptr) return who + "No batch could be measured.";
  const std::string fastest =
      cat(who.empty() ? "The" : "the", " highest throughput is ", format_rate(best->samples_per_second),
          " samples/s, at batch ", best->batch);
  if (!variant.knee) return cat(who, fastest, ".");
  const std::string knee = brief(variant.knee->batch, 3);
  if (!variant.knee->reached)
    return cat(who, fastest, "; it still rises there, so a larger batch than those measured gains more.");
  if (variant.knee->below_range)
    return cat(who, fastest,
               "; no batch that was measured is free, the smallest costs its full time already.");
  return cat(who, fastest, "; up to a batch of about ", knee,
             " more samples cost little time, and beyond it hardly anything is gained.");
}

}  // namespace

std::string answer_of(const Sweep& sweep, const SweepVariant& variant) {
  const SweepPoint* const point = unsteadiest(variant);
  if (point == nullptr || point->drift.value_or(0) <= kDoubtful) return found_of(sweep, variant);
  return cat(found_of(sweep, variant),
             " This may be chance: the machine was not steady, and rounds of batch ", point->batch,
             " differ ", times(*point->drift + 1), ".");
}

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
  if (!variant.precision.empty() && variant.predicted == 0)
    sentences.push_back("no prediction: " + why_no_prediction(variant));
  if (variant.explanation && far_off(variant.explanation->ratio)) {
    for (std::string& sentence : explanation_sentences(sweep, variant))
      sentences.push_back(std::move(sentence));
  }
  if (!sweep.device_figures.empty() && !variant.precision.empty())
    sentences.push_back(elsewhere_sentence(sweep, variant));
  if (sweep.latency_ms) sentences.push_back(within_sentence(sweep, variant));
  if (std::string room = capacity_sentence(sweep, variant); !room.empty())
    sentences.push_back(std::move(room));
  if (std::string whole = end_to_end_sentence(variant); !whole.empty()) sentences.push_back(std::move(whole));
  const SweepPoint* const unsteady = unsteadiest(variant);
  if (unsteady != nullptr && unsteady->drift.value_or(0) > kSteady) {
    sentences.push_back(cat("the machine was not steady: medians of rounds differ by up to ",
                            format_percent(*unsteady->drift, 0), " (batch ", unsteady->batch, ")"));
  }
  for (const SweepPoint& point : variant.points) {
    if (point.swapped_bytes > 0)
      sentences.push_back(cat("at batch ", point.batch, " ", format_bytes(point.swapped_bytes),
                              " were swapped out: its time is the disk's"));
  }
  for (std::string& sentence : swap_sentences(variant)) sentences.push_back(std::move(sentence));
  return sentences;
}

std::string label_of(const Sweep& sweep, const SweepVariant& variant) {
  return sweep.key.empty() ? sweep.name : cat(sweep.key, "=", variant.value);
}

}  // namespace autotrain
