#include "plan/plan_words.h"

#include <algorithm>

#include "base/text.h"
#include "base/units.h"
#include "plan/plan_enums.h"

namespace autotrain {

std::string trial_in_words(const ProbeRecord& probe) {
  std::string line = cat("micro ", probe.micro_batch);
  if (probe.peak_bytes > 0) {
    line += cat(" · peak ", format_bytes(probe.peak_bytes), " · fill ", format_percent(probe.fill));
  }
  line += cat(" · ", in_words(probe.outcome), probe.confirmed ? ", confirmed" : "");
  if (probe.samples_per_second > 0) line += cat(" · ", format_rate(probe.samples_per_second), " samples/s");
  return line + " · " + format_seconds(probe.seconds);
}

std::string reason_in_words(const BatchPlan& plan) {
  const std::string unused = format_percent(std::max(0.0, 1 - plan.search.fill), 0);
  switch (plan.search.reason) {
    case SearchReason::kInBand: return "in the band";
    case SearchReason::kEffectiveBatch:
      return unused + " of memory is unused because the whole effective batch fits";
    case SearchReason::kDataset: return unused + " of memory is unused because the whole data set fits";
    case SearchReason::kCap: return unused + " of memory is unused because of the cap on the micro-batch";
    case SearchReason::kIndexLimit: return unused + " of memory is unused because kernels cannot index more";
    case SearchReason::kGranularity: return "one step more would leave the band";
    case SearchReason::kAboveBand: return "above the band, as even the smallest is, but inside the budget";
    case SearchReason::kSearchLimit: return "the best when the search's probes or seconds were spent";
    case SearchReason::kKnee: return "more gains less than 5 % throughput";
    case SearchReason::kLatency: return "one step more would take longer than the latency asked for";
    case SearchReason::kFixed: return "asked for";
    case SearchReason::kDoesNotFit: return "does not fit";
  }
  return "";
}

}  // namespace autotrain
