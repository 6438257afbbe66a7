#include "report/noise_words.h"

#include <cmath>

#include "base/json.h"
#include "base/text.h"
#include "base/units.h"
#include "report/metrics_file.h"

namespace autotrain {
namespace {

std::string rounded(double samples) {
  return samples >= 100 && samples < 0x1p53 ? format_count(std::llround(samples)) : brief(samples, 3);
}

bool is_bound(const NoiseScale& scale) {
  return !scale.samples || !scale.high;
}

}  // namespace

std::string in_brief(const NoiseScale& scale) {
  if (is_bound(scale)) return "≥ " + rounded(scale.low);
  if (*scale.samples == 0) return "≤ " + rounded(*scale.high);
  return cat(rounded(*scale.samples), " [", rounded(scale.low), ", ", rounded(*scale.high), "]");
}

std::string in_words(const NoiseScale& scale) {
  if (is_bound(scale)) {
    return cat(in_brief(scale),
               " samples: the gradient is too noisy to say more; larger batches would not be wasted on it");
  }
  if (*scale.samples == 0) return cat(in_brief(scale), " samples: batches far above it save no updates");
  return cat(rounded(*scale.samples), " samples [", rounded(scale.low), ", ", rounded(*scale.high),
             "]: batches far below it use samples best, far above it save no updates");
}

nlohmann::ordered_json noise_scale_to_json(const std::optional<NoiseScale>& scale) {
  if (!scale) return nullptr;
  return {{"samples", or_null(scale->samples)},
          {"low", finite_or_null(scale->low)},
          {"high", or_null(scale->high)}};
}

std::optional<NoiseScale> noise_scale_from_json(const nlohmann::ordered_json& json) {
  const double low = number_in(json, "low"), samples = number_in(json, "samples"),
               high = number_in(json, "high");
  if (!std::isfinite(low)) return std::nullopt;
  if (!std::isfinite(samples) || !std::isfinite(high)) return NoiseScale{.low = low};
  return NoiseScale{.samples = samples, .low = low, .high = high};
}

}  // namespace autotrain
