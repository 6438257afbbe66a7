#include "setup/loader_start.h"

#include <algorithm>

#include "autotrain/log.h"
#include "base/text.h"
#include "base/units.h"
#include "data/preload.h"

namespace autotrain {
namespace {

constexpr double kWorthSaying = 0.05;  // of the time

std::string cures_for(const Dataset& data, bool asked) {
  std::vector<std::string> ways;
  if (asked) ways.push_back("execution.loader.workers: auto");
  if (data.info().kind == DatasetInfo::Kind::kImages) ways.push_back("fewer pixels");
  if (const auto* const offer = dynamic_cast<const Preloadable*>(&data); offer && offer->ram_bytes() > 0) {
    ways.push_back("execution.loader.preload: ram");
    if (offer->spares_decoding()) ways.push_back("files stored decoded (npy)");
  }
  ways.push_back("more cores");
  return join(ways, ", ");
}

}  // namespace

LoadingRates rates_of(const BatchPlan& plan) {
  LoadingRates rates;
  for (const ProbeRecord& trial : plan.search.probes) {
    if (trial.micro_batch != plan.micro_batch || trial.pass_samples_per_second == 0) continue;
    rates = {trial.pass_samples_per_second, trial.load_seconds_per_sample};
  }
  return rates;
}

std::string too_slow(const LoadingRates& rates, int64_t threads, bool asked, const Dataset& data) {
  const double waiting = expected_waiting(rates, threads);
  if (waiting <= kWorthSaying) return "";
  return cat("data will be slower than the step: a sample takes ",
             brief(1e3 * rates.load_seconds_per_sample, 3), " ms of a core, the passes want ",
             brief(rates.threads(), 3), " cores, ", threads, threads == 1 ? " is " : " are ",
             asked ? "asked for" : "free", ": expect to wait ", format_percent(waiting, 0),
             " of the time; what would help: ", cures_for(data, asked));
}

void start_loader(const BatchPlan& plan, const LoaderRecipe& asked, Workbench& bench) {
  if (bench.loader.workers == 0 || bench.data.train->on_device() || bench.data.train->changes()) return;
  const LoadingRates rates = rates_of(plan);
  if (!asked.workers) {
    const bool on_cpu = bench.device->torch_device().is_cpu();
    const int64_t most = on_cpu ? std::max<int64_t>(1, bench.most_workers / 2) : bench.most_workers;
    bench.loader.workers = threads_for(rates, most);
  }
  const std::string words = too_slow(rates, bench.most_workers, asked.workers.has_value(), *bench.data.train);
  if (!words.empty()) log::warn("data", words);
}

}  // namespace autotrain
