#include <algorithm>
#include <limits>
#include <map>

#include "base/json.h"
#include "base/text.h"
#include "base/units.h"
#include "report/column.h"
#include "sweep/call_times.h"
#include "sweep/decode.h"

namespace autotrain {
namespace {

constexpr double kHolds = 0.6;  // of the bound: less asks for a reason

void take_steps(const std::vector<StudyResult>& rounds, DecodePoint& point) {
  const CallTimes times = call_times(rounds);
  point.repeats = std::ssize(times.sorted);
  point.p50_seconds = times.at(0.5);
  point.p99_seconds = times.at(0.99);
  point.half_width = times.half_width;
  point.drift = times.drift;
}

void bound(const DecodeVariant& variant, DecodePoint& p) {
  p.reading_seconds = static_cast<double>(p.weight_bytes + p.cache_bytes) / p.bytes_per_second;
  p.computing_seconds.reset();
  if (variant.peak_flops > 0) {
    const int64_t products = variant.step_products + variant.attention_products * p.context;
    p.computing_seconds =
        2 * static_cast<double>(products) * static_cast<double>(p.batch) / variant.peak_flops;
  }
  p.reached = p.bound_seconds() / p.p50_seconds;
}

const DecodePoint* best_of(const DecodeVariant& variant, int64_t context) {
  const DecodePoint* best = nullptr;
  for (const DecodePoint& p : variant.points) {
    if (!p.failure.empty() || p.context != context) continue;
    if (best == nullptr || p.tokens_per_second > best->tokens_per_second) best = &p;
  }
  return best;
}

std::string sentence_of(const DecodeVariant& variant, int64_t context) {
  const DecodePoint* const best = best_of(variant, context);
  std::string words =
      cat("Context ", context, ": the cache takes ", format_bytes(variant.token_bytes * context),
          " a sequence, and from a batch of ", brief(variant.equal_batch(context), 3),
          " on reading it takes longer than reading the weights");
  if (best == nullptr) return words + ".";
  return cat(words, "; best at batch ", best->batch, ": ", format_rate(best->tokens_per_second),
             " tokens/s, ", milliseconds(best->p50_seconds), " ms a token.");
}

std::string reach_of(const DecodeVariant& variant) {
  int64_t holds = 0, measured = 0, computing = 0;
  const DecodePoint* worst = nullptr;
  for (const DecodePoint& p : variant.points) {
    if (!p.failure.empty()) continue;
    ++measured;
    holds += p.reached >= kHolds;
    computing += !p.is_bound_by_reading();
    if (worst == nullptr || p.reached < worst->reached) worst = &p;
  }
  if (worst == nullptr) return "";
  return cat(holds, " of ", measured, " points reach ", format_percent(kHolds, 0),
             " of their bound or more; computing bounds ", computing,
             " of them, reading the others. The least is ", format_percent(worst->reached, 0), ", batch ",
             worst->batch, " at context ", worst->context, ".");
}

std::string weights_sentence(const DecodeVariant& variant) {
  const std::string cache = cat(format_bytes(variant.token_bytes),
                                " of the cache for each token of each sequence (", variant.precision, ").");
  const std::string weights = format_bytes(variant.weight_bytes);
  std::string experts;
  for (const DecodePoint& p : variant.points) {
    if (!p.experts_read) continue;
    experts += cat(experts.empty() ? "" : ", ", brief(*p.experts_read, 3), " at batch ", p.batch,
                   " (an even gate: ", brief(*p.experts_expected, 3), ")");
  }
  if (experts.empty()) return cat("A step reads ", weights, " of weights, whatever the batch, and ", cache);
  return cat("A step reads of ", weights, " of weights those of the experts that its tokens choose, ",
             experts, " in a layer, and ", cache);
}

std::string batching_sentence(const BatchingComparison& b) {
  return cat("Of ", b.requests, " requests of unequal lengths in ", b.slots,
             " slots, continuous batches make ", format_rate(b.continuous_tokens_per_second),
             " tokens/s and static ones ", format_rate(b.static_tokens_per_second), ", ", brief(b.gain, 3),
             " times as many, in ", b.continuous_steps, " steps instead of ", b.static_steps, "; ",
             b.same_alone, " of ", b.alone, " requests that were also generated alone have the same tokens.");
}

}  // namespace

double DecodePoint::bound_seconds() const {
  return std::max(reading_seconds, computing_seconds.value_or(0));
}

bool DecodePoint::is_bound_by_reading() const {
  return reading_seconds >= computing_seconds.value_or(0);
}

double DecodeVariant::equal_batch(int64_t context) const {
  return static_cast<double>(weight_bytes) / static_cast<double>(token_bytes * context);
}

DecodePoint summarise_decode(int64_t batch, int64_t context, const std::vector<StudyResult>& rounds) {
  DecodePoint point{.batch = batch, .context = context};
  for (const StudyResult& round : rounds) {
    if (!round.failed()) continue;
    point.failure = first_line(round.failure);
    point.code = round.code;
    return point;
  }
  take_steps(rounds, point);
  point.tokens_per_second = static_cast<double>(batch) / point.p50_seconds;
  point.prefill_seconds = std::numeric_limits<double>::infinity();
  for (const StudyResult& round : rounds) {
    const nlohmann::ordered_json& v = round.value;
    point.prefill_seconds = std::min(point.prefill_seconds, v.at("prefill_seconds").get<double>());
    point.bytes_per_second = std::max(point.bytes_per_second, v.at("bytes_per_second").get<double>());
    point.peak_bytes = std::max(point.peak_bytes, v.at("peak_bytes").get<int64_t>());
    point.weight_bytes = v.at("weight_bytes");
    point.experts_read = optional_number(v.at("experts_read"));
    point.experts_expected = optional_number(v.at("experts_expected"));
    point.busiest = optional_number(v.at("busiest_expert"));
    point.cache_bytes = v.at("cache_bytes");
  }
  point.prefill_tokens_per_second = static_cast<double>(batch * context) / point.prefill_seconds;
  return point;
}

void take_decoder(const StudyResult& result, DecodeVariant& variant) {
  if (result.failed()) {
    variant.failure = first_line(result.failure);
    return;
  }
  variant.precision = result.value.at("precision");
  variant.weight_bytes = result.value.at("weight_bytes");
  variant.token_bytes = result.value.at("token_bytes");
  variant.step_products = result.value.at("step_products");
  variant.attention_products = result.value.at("attention_products");
  variant.machine = result.value.at("machine");
}

void analyse(DecodeSweep& sweep) {
  for (DecodeVariant& variant : sweep.variants) {
    if (variant.machine.is_object())
      variant.peak_flops = variant.machine.at("flops").value(variant.precision, 0.0);
    for (DecodePoint& point : variant.points) {
      if (point.failure.empty()) bound(variant, point);
    }
  }
}

std::string label_of(const DecodeSweep& sweep, const DecodeVariant& variant) {
  return sweep.key.empty() ? sweep.name : sweep.key + "=" + variant.value;
}

std::vector<std::string> sentences_of(const DecodeVariant& variant) {
  if (!variant.failure.empty()) return {variant.failure};
  if (variant.token_bytes == 0) return {};
  std::vector<std::string> sentences = {weights_sentence(variant)};
  std::vector<int64_t> contexts;
  for (const DecodePoint& p : variant.points) contexts.push_back(p.context);
  std::ranges::sort(contexts);
  contexts.erase(std::ranges::unique(contexts).begin(), contexts.end());
  for (const int64_t context : contexts) sentences.push_back(sentence_of(variant, context));
  if (const std::string reach = reach_of(variant); !reach.empty()) sentences.push_back(reach);
  if (variant.batching && variant.batching->failure.empty())
    sentences.push_back(batching_sentence(*variant.batching));
  return sentences;
}

}  // namespace autotrain
