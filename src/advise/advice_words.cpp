#include "advise/advice_words.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "base/units.h"
#include "report/noise_words.h"

namespace autotrain {
namespace {

constexpr double kMuchGrown = 2;  // a noise scale that a reader should know of

std::string e_text(int64_t effective) {
  return "E = " + format_count(effective);
}

std::string needs_text(const BatchRow& row) {
  return cat(e_text(row.effective), " needs ", ranged_text(*row.samples), " of the samples and ",
             ranged_text(*row.seconds), " of the time");
}

// More than one micro-batch of a device's update because more do not fit, not because lanes cut it.
bool accumulates(const Advice& a) {
  return a.batch.rows[a.batch.own].window > 1 && a.run.plan.lanes <= a.run.plan.world_size;
}

std::string lower_text(const Advice& a, const BatchRow& own, const BatchRow& row) {
  const bool accumulated = accumulates(a) && row.window == 1;
  return cat("Lower: ", accumulated ? "accumulation buys you nothing here. " : "", needs_text(row), " of ",
             e_text(own.effective), " to the same loss.");
}

std::string raise_text(const Advice& a, const BatchRow& own, const BatchRow& row) {
  const std::string speeds = cat(format_rate(row.samples_per_second), " samples/s in the place of ",
                                 format_rate(own.samples_per_second), ".");
  if (!a.by_branches)
    return cat("Raise: ", needs_text(row), " of ", e_text(own.effective), " to the same loss: ", speeds);
  return cat("Raise: in branches ", e_text(row.effective), " is no worse than ", e_text(own.effective),
             " at equal samples, and needs ", brief(own.samples_per_second / row.samples_per_second, 3),
             " of the time: ", speeds);
}

std::string seen_text(const ObservedRun& run) {
  return *run.seen < 0.01 ? "less than 1 %" : format_percent(*run.seen, 0);
}

// What makes the intervals wide, and what narrows them.
std::string interval_text(const Advice& a) {
  constexpr double kMuch = 0.1;
  double worst = 0;
  for (const SpeedPoint& point : a.execution.points) worst = std::max(worst, point.uncertainty);
  if (worst < kMuch) return "not at both ends of the noise scale's interval. More updates narrow it";
  return cat("not at both ends of the interval, of the noise scale and of speeds, which are known to ",
             format_percent(worst, 0), " alone. More updates and --seconds without other work narrow it");
}

std::string keep_text(const Advice& a) {
  const BatchRow& own = a.batch.rows[a.batch.own];
  const char* const measures = a.run.recipe.batch.changes() ? "" : "; --branches measures";
  if (a.refuted)
    return cat("Keep ", e_text(own.effective), ": by the noise scale ", needs_text(a.batch.rows[*a.refuted]),
               " to the same loss, but ",
               *a.refuted < a.batch.own
                   ? "branches show no better loss of smaller batches at equal samples."
                   : "branches of larger batches come to a worse loss at equal samples.");
  if (a.batch.unsure && a.verification)
    return cat("Keep ", e_text(own.effective),
               ": another size might take less time, but neither the noise scale nor the branches show it.");
  if (a.batch.unsure && a.run.early())
    return cat("Keep ", e_text(own.effective),
               " for now: another size might take less time, which the beginning of a run, ",
               seen_text(a.run), " of it, cannot tell. A whole run can", measures, ".");
  if (a.batch.unsure)
    return cat("Keep ", e_text(own.effective), " for now: another size might take less time, but ",
               interval_text(a), measures, ".");
  return cat("Keep ", e_text(own.effective), ": no size in the table takes less than ",
             format_percent(1 - kWorthwhile, 0), " of its time to the same loss.");
}

std::string verdict_text(const Advice& a) {
  const BatchRow &own = a.batch.rows[a.batch.own], &advised = a.batch.rows[a.batch.advised];
  switch (a.batch.verdict) {
    case BatchVerdict::kLower: return lower_text(a, own, advised);
    case BatchVerdict::kRaise: return raise_text(a, own, advised);
    case BatchVerdict::kKeep: return keep_text(a);
    case BatchVerdict::kUnknown: break;
  }
  return "No verdict: the gradient noise scale of this run is not known, because " + a.run.no_noise_because +
         ".";
}

// Of a run whose batch changed; "" of others.
std::string stage_text(const Advice& a) {
  if (!a.run.recipe.batch.changes()) return "";
  return cat(
      "The batch of this run changes as its recipe says (batch.schedule or batch.adapt). All this is about "
      "its last "
      "one, ",
      e_text(a.run.plan.effective_batch), ", and there are no lines for the recipe.");
}

// What accumulation costs where the verdict does not speak of it; "" where there is none.
std::string accumulation_text(const Advice& a) {
  const BatchRow& own = a.batch.rows[a.batch.own];
  if (!accumulates(a) || a.batch.verdict == BatchVerdict::kLower || a.refuted || !a.run.noise) return "";
  const BatchRow* single = nullptr;
  for (const BatchRow& row : a.batch.rows) {
    if (row.window == 1) single = &row;
  }
  return single == nullptr ? ""
                           : cat("Accumulation: without it, ", needs_text(*single), " of ", own.window,
                                 " micro-batches an update.");
}

std::string knee_text(const Advice& a) {
  const double best =
      std::ranges::max_element(a.batch.rows, {}, &BatchRow::samples_per_second)->samples_per_second;
  const std::string share = format_percent(1 - a.run.recipe.execution.search.throughput_share, 0);
  if (a.batch.knee == a.batch.rows.front().effective)
    return cat("Computational knee: below ", e_text(a.batch.knee), "; every size in the table has ", share,
               " of the best speed, ", format_rate(best), " samples/s.");
  return cat("Computational knee: ", e_text(a.batch.knee), ", the smallest size with ", share,
             " of the best ", format_rate(best), " samples/s; below it the ",
             a.run.plan.world_size == 1 ? "device idles" : "devices idle", ".");
}

// Which of two scales that is, and the other one; "" where there is one.
std::string metric_text(const ObservedRun& run) {
  if (!run.plain_noise || !run.preconditioned_noise) return "";
  if (run.by_preconditioned())
    return cat(" It is that in the metric of ", run.recipe.optimizer.algorithm.name,
               ", which decides; of the plain gradient it is ", in_brief(*run.plain_noise), ".");
  return cat(" It is that of the plain gradient, which decides; in the metric of ",
             run.recipe.optimizer.algorithm.name,
             " it is not known well enough yet: ", in_brief(*run.preconditioned_noise), ".");
}

std::string noise_text(const Advice& a) {
  const NoiseScale& now = *a.run.noise;
  const auto& early = a.run.early_noise;
  std::string text = "Statistical scale: " + in_words(now);
  if (early && early->samples.value_or(0) > 0 && now.samples && *now.samples > kMuchGrown * *early->samples)
    text += cat("; it was ", brief(*early->samples, 2),
                " after a quarter of the updates, when smaller batches were enough");
  text += "." + metric_text(a.run);
  if (a.run.early())
    text += cat(" It was measured over the beginning of the run, ", seen_text(a.run),
                " of it, and usually rises as the loss falls, so it counts as a lower bound here.");
  return text;
}

std::string half_life_text(const Advice& a) {
  const double samples = second_moment_half_life(a.run.recipe, a.run.plan.effective_batch);
  if (samples == 0) return "";
  const double epochs = samples / static_cast<double>(a.run.dataset_size);
  const bool long_lived = samples > static_cast<double>(a.run.samples) / 2;
  return cat("The second moment has a half-life of ", format_count(std::llround(samples)), " samples (",
             brief(epochs, 2), " epochs)", long_lived ? ", more than half of this run" : "",
             ": with β2 unchanged it moves with the batch, which is what small batches were blamed for "
             "(arXiv:2507.07101).");
}

std::string devices_text(const Advice& a) {
  if (a.batch.devices.empty()) return "";
  const std::string share = format_percent(kWorthDevices, 0);
  const auto gain = [&](const std::optional<int64_t>& most) {
    return most ? cat("more than ", *most, " save less than ", share, " of the time")
                : "more of them pay up to 64";
  };
  const bool measured = a.execution.exchange_seconds.has_value();
  return cat("Devices: at ", e_text(a.run.plan.effective_batch), " ", gain(a.batch.most_devices_own),
             ", at the best batch for each number ", gain(a.batch.most_devices),
             measured ? "; with the exchange as it was measured."
                      : "; measured on one rank: without communication, at best.");
}

}  // namespace

std::string ranged_text(const Ranged& ranged) {
  if (!ranged.value) return cat(brief(ranged.low, 3), " to ", brief(ranged.high, 3));
  if (ranged.low == ranged.high) return brief(*ranged.value, 3);
  return cat(brief(*ranged.value, 3), " [", brief(ranged.low, 3), ", ", brief(ranged.high, 3), "]");
}

std::vector<std::string> sentences_of(const Advice& a) {
  std::vector<std::string> all = {verdict_text(a), stage_text(a), accumulation_text(a), knee_text(a)};
  if (a.run.noise) all.push_back(noise_text(a));
  all.push_back(half_life_text(a));
  all.push_back(devices_text(a));
  if (a.verification) {
    for (const std::string& sentence :
         sentences_of(*a.verification, a.run.noise ? a.run.noise->samples : std::nullopt))
      all.push_back(sentence);
  } else if (a.run.noise) {
    all.push_back(
        cat("The noise scale predicts; ",
            a.run.by_preconditioned() ? "that of the plain gradient " : "it is of the plain gradient, and ",
            "was found no trustworthy proxy of the critical batch (arXiv:2505.23971).",
            a.run.recipe.batch.changes() ? "" : " --branches measures it."));
  }
  std::erase(all, "");
  return all;
}

}  // namespace autotrain
