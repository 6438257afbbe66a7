#include "plan/size_search.h"

#include <algorithm>

#include "autotrain/log.h"
#include "base/text.h"
#include "base/units.h"

namespace autotrain {
namespace {

void replace_or_add(std::vector<ProbeRecord>& history, const ProbeRecord& record) {
  const auto known = std::ranges::find(history, record.micro_batch, &ProbeRecord::micro_batch);
  known == history.end() ? history.push_back(record) : void(*known = record);
}

SearchLimits within(const Device& device, SearchLimits limits) {
  limits.budget_bytes = device.budget_bytes();
  return limits;
}

bool whole(const ProbeRecord& /*so_far*/) {
  return true;
}

}  // namespace

bool lower_budget_to(int64_t granted, const std::string& source, Device& device) {
  if (granted == device.budget_bytes()) return false;
  log::warn("plan", cat("the budget of ", format_bytes(device.budget_bytes()),
                        " cannot be had: trials were refused at ", format_bytes(granted),
                        ", which is the budget from now on"));
  device.set_budget({granted, source});
  return true;
}

SizeSearch::SizeSearch(Device& device, Options options)
    : device_(device),
      options_(std::move(options)),
      announced_(within(device, options_.limits)),
      announced_source_(device.budget_source()),
      all_(options_.known) {
  options_.limits = announced_;
  for (ProbeRecord& record : all_) {
    judge(record);
    replace_or_add(history_, record);
  }
  lower_budget();
}

void SizeSearch::judge(ProbeRecord& record) const {
  autotrain::judge(record, options_.limits.budget_bytes, options_.limits.target_high);
  options_.judge_also(record);
}

void SizeSearch::judge_anew() {
  for (std::vector<ProbeRecord>* const records : {&history_, &all_})
    for (ProbeRecord& record : *records) judge(record);
}

// When a trial showed that less is granted than was announced, that is the budget from now on.
void SizeSearch::lower_budget() {
  const int64_t granted = granted_bytes(history_, options_.limits);
  const std::string source = cat(announced_source_, ", of which ", format_bytes(announced_.budget_bytes),
                                 " were announced and ", format_bytes(granted), " granted");
  if (!lower_budget_to(granted, source, device_)) return;
  options_.limits.budget_bytes = device_.budget_bytes();
  judge_anew();
}

ProbeRecord SizeSearch::run_trial(int64_t size, const ExtendTrial& extend) {
  options_.listener.on_start(size);
  ProbeRecord record = options_.trial(size, extend);
  judge(record);
  return record;
}

void SizeSearch::keep(const ProbeRecord& record) {
  replace_or_add(history_, record);
  all_.push_back(record);
  log::info("plan", cat("probe ", all_.size(), ": ", options_.in_words(record)));
  lower_budget();
  options_.listener.on_end(all_.back());
}

ProbeRecord SizeSearch::confirm(int64_t size) {
  const ProbeRecord* const known = find_size(history_, size);
  if (known != nullptr && known->outcome == ProbeOutcome::kCrashed) return *known;  // it would again
  keep(run_trial(size, whole));
  return *find_size(history_, size);  // judged by what is granted
}

std::optional<SizeSearch::Found> SizeSearch::take_typed(int64_t size) {
  const ProbeRecord record = confirm(size);
  if (!record.confirmed || record.fill > 1) return std::nullopt;
  if (record.fill > options_.limits.target_high) {
    log::warn("plan", cat(options_.name(size), " fills ", format_percent(record.fill),
                          " of the budget, above the band's ", format_percent(announced_.target_high, 0),
                          "; it was asked for, so it runs"));
  }
  return Found{size, record, SearchReason::kFixed};
}

// Runs trials until the strategy is done. A trial that is in the band or ends the search is extended to its
// confirmation on the spot: what libraries keep for the sizes that are tried after it is none of its own.
SizeSearch::Found SizeSearch::search(SearchLimits limits) {
  const int64_t most_probes = limits.max_probes;
  for (;;) {
    limits.budget_bytes = options_.limits.budget_bytes;  // a trial may have lowered it
    limits.max_probes = most_probes - distrusted_;
    const SearchStep step = options_.strategy.next(history_, limits);
    if (step.done) {
      const ProbeRecord* const record = find_size(history_, step.size);
      return record ? Found{step.size, *record, step.reason} : Found{0, {}, step.reason};
    }
    const auto ends_the_search = [&](const ProbeRecord& so_far) {
      std::vector<ProbeRecord> with_this = history_;
      replace_or_add(with_this, so_far);
      const SearchStep then = options_.strategy.next(with_this, limits);
      return then.done && then.size == step.size;
    };
    std::optional<ProbeRecord> short_trial;  // when more was run than that
    const ProbeRecord record = run_trial(step.size, [&](ProbeRecord so_far) {
      judge(so_far);
      // A strategy that compares speeds times the second update: the first one compiles kernels.
      const bool in_band = so_far.fits() && so_far.fill >= limits.target_low;
      const bool extended = options_.strategy.timed || whole_trials_ || in_band || ends_the_search(so_far);
      if (extended) short_trial = so_far;
      return extended;
    });
    if (short_trial && !record.fits()) distrust_short_trials(*short_trial, record);
    keep(record);
  }
}

// An evaluation, or a shape that only some updates have, took more than a first update. So would it at the
// sizes that were tried without: tensors in proportion to the size, and beside them as much again. When
// nobody knows how much, small sizes are trusted.
void SizeSearch::distrust_short_trials(const ProbeRecord& short_trial, const ProbeRecord& whole) {
  whole_trials_ = true;
  const auto is_short = [](const ProbeRecord& record) { return record.fits() && !record.confirmed; };
  if (whole.peak_bytes == 0) {
    distrusted_ += std::erase_if(history_, [&](const ProbeRecord& record) {
      return is_short(record) && 2 * record.micro_batch > whole.micro_batch;
    });
    return;
  }
  const auto beside = [](const ProbeRecord& record) { return record.peak_bytes - record.allocated_bytes; };
  const int64_t tensors = std::max<int64_t>(0, whole.allocated_bytes - short_trial.allocated_bytes);
  const int64_t others = std::max<int64_t>(0, beside(whole) - beside(short_trial));
  const double each = static_cast<double>(tensors) / static_cast<double>(whole.micro_batch);
  for (ProbeRecord& record : history_) {
    if (!is_short(record)) continue;
    const auto more = static_cast<int64_t>(each * static_cast<double>(record.micro_batch));
    record.allocated_bytes += more;
    record.peak_bytes += more + others;
    judge(record);
  }
}

// Where weights are most of the budget, many more samples than the smallest size may take little more than
// it.
bool SizeSearch::raise_the_edge() {
  const auto band = raised_band(history_, options_.limits, announced_.target_high);
  if (!band) return false;
  options_.limits.target_low = band->low;
  options_.limits.target_high = band->high;
  judge_anew();
  return true;
}

// What ended the search may have gone by a trial of the first update alone: where all that a confirmation
// runs takes the size into the band, or above it, that is where it is.
SizeSearch::Found SizeSearch::named(Found found) const {
  const double fill = found.record.fill;
  if (fill > announced_.target_high) {
    found.reason = SearchReason::kAboveBand;
    log::warn("plan", cat(options_.name(found.size), " fills ", format_percent(fill),
                          " of the budget, above the band's ", format_percent(announced_.target_high, 0),
                          ", as even the smallest does; it is inside the budget, so it runs"));
    return found;
  }
  const bool ended_outside =
      found.reason == SearchReason::kGranularity || found.reason == SearchReason::kSearchLimit;
  if (ended_outside && found.record.fits() && fill >= announced_.target_low)
    found.reason = SearchReason::kInBand;
  return found;
}

std::optional<SizeSearch::Found> SizeSearch::find() {
  for (;;) {
    Found found = search(options_.limits);
    if (found.size == 0) {
      if (!raise_the_edge()) return std::nullopt;
      continue;
    }
    if (found.record.confirmed) return named(found);
    // Found by an earlier trial: run it from clean state now. If it leaves the band, the search goes
    // on below it.
    const ProbeRecord short_trial = found.record;
    found.record = confirm(found.size);
    if (found.record.fits()) return named(found);
    distrust_short_trials(short_trial, found.record);
  }
}

std::optional<SizeSearch::Found> SizeSearch::look_up_to(int64_t cap) {
  SearchLimits limits = options_.limits;
  limits.cap = std::min(limits.cap, cap);
  const Found found = search(limits);
  return found.size > 0 ? std::optional(found) : std::nullopt;
}

}  // namespace autotrain
