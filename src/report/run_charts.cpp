#include "report/run_charts.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/json.h"
#include "base/text.h"
#include "report/run_columns.h"

namespace autotrain {
namespace {

using Json = nlohmann::ordered_json;
using page::Chart;
using page::Draw;
using page::Format;
using page::Series;
using Numbers = std::vector<double>;

constexpr size_t kMostMarks = 200;  // a page with more says nothing more

// Whether updates had different numbers of samples; the last one of a run may be cut short.
bool batch_changes(const Columns& updates) {
  const Numbers* const batches = updates.find("effective_batch");
  if (batches == nullptr || batches->size() < 2) return false;
  const double first = batches->front();
  return std::any_of(batches->begin(), batches->end() - 1, [&](double batch) {
    return std::isfinite(batch) && std::isfinite(first) && batch != first;
  });
}

// Where updates stand on each x axis of a run's plots: the one that comes first is shown first.
class Clock {
 public:
  explicit Clock(const Columns& updates) {
    const Numbers* const numbers = updates.find("update");
    if (numbers == nullptr) return;
    updates_ = *numbers;
    const Numbers* const samples = updates.find("samples");
    const bool samples_first = samples != nullptr && batch_changes(updates);
    if (samples_first) add({"samples"}, *samples);
    add({"updates"}, updates_);
    if (samples != nullptr && !samples_first) add({"samples"}, *samples);
    const Numbers seconds = seconds_so_far(updates);
    if (!seconds.empty()) add({.label = "time", .format = Format::kSeconds}, seconds);
  }

  const std::vector<page::Axis>& axes() const { return axes_; }
  const std::vector<Numbers>& columns() const { return columns_; }

  /// Where the run stood right after an update, on each axis: at the start before the first.
  Numbers at(int64_t update) const {
    const auto end = std::upper_bound(updates_.begin(), updates_.end(), static_cast<double>(update));
    const auto rows = static_cast<size_t>(end - updates_.begin());
    Numbers place;
    for (const Numbers& column : columns_) place.push_back(rows > 0 ? column[rows - 1] : 0);
    return place;
  }

 private:
  void add(page::Axis axis, const Numbers& column) {
    axes_.push_back(std::move(axis));
    columns_.push_back(column);
  }

  // The time that updates took, summed over what it went to.
  static Numbers seconds_so_far(const Columns& updates) {
    Numbers sums;
    for (size_t i = 0; i < updates.names.size(); ++i) {
      if (!updates.names[i].starts_with("activity_seconds.")) continue;
      sums.resize(updates.rows(), 0);
      for (size_t row = 0; row < sums.size(); ++row) {
        if (std::isfinite(updates.values[i][row])) sums[row] += updates.values[i][row];
      }
    }
    for (size_t row = 1; row < sums.size(); ++row) sums[row] += sums[row - 1];
    return sums;
  }

  Numbers updates_;
  std::vector<page::Axis> axes_;
  std::vector<Numbers> columns_;
};

bool has_number(const Series& series) {
  return std::any_of(series.y.begin(), series.y.end(), [](double value) { return std::isfinite(value); });
}

void keep_measured(std::vector<Chart>& charts) {
  for (Chart& chart : charts)
    std::erase_if(chart.series, [](const Series& series) { return !has_number(series); });
  std::erase_if(charts, [](const Chart& chart) { return chart.series.empty() || chart.x.empty(); });
}

// ---------------------------------------------------------------- the search

// Trials with one outcome, by micro-batch.
struct Trials {
  Series memory, throughput;
};

std::map<std::string, Trials> trials_by_outcome(const Json& probes) {
  std::map<std::string, Trials> trials;
  int number = 0;
  for (const Json& probe : probes) {
    ++number;
    const double micro_batch = number_in(probe, "micro_batch"), peak = number_in(probe, "peak_bytes");
    if (!(peak > 0)) continue;
    const std::string label = cat("trial ", number, flag_in(probe, "confirmed") ? ", confirmed" : "");
    auto& [memory, throughput] = trials[text_in(probe, "outcome")];
    for (auto& [series, value] :
         {std::pair<Series&, double>(memory, peak),
          std::pair<Series&, double>(throughput, number_in(probe, "samples_per_second"))}) {
      series.x.resize(1);
      series.x[0].push_back(micro_batch);
      series.y.push_back(value);
      series.labels.push_back(label);
    }
  }
  return trials;
}

std::vector<page::Mark> trial_marks(const Json& plan) {
  std::vector<page::Mark> marks = {{{number_in(plan, "micro_batch")}, "executed"}};
  for (const Json& probe : part_in(part_in(plan, "search"), "probes")) {
    if (number_in(probe, "peak_bytes") > 0) continue;
    marks.push_back({{number_in(probe, "micro_batch")}, text_in(probe, "outcome")});
  }
  return marks;
}

std::vector<page::Range> memory_ranges(const Json& plan) {
  const double budget = number_in(plan, "budget_bytes");
  const Json& target = part_in(plan, "target");
  std::vector<page::Range> ranges;
  if (!(budget > 0)) return ranges;
  if (target.is_array() && target.size() == 2) {
    ranges.push_back({number_of(target[0]) * budget, number_of(target[1]) * budget, "band to fill"});
  }
  ranges.push_back({budget, budget, "budget"});
  return ranges;
}

}  // namespace

std::vector<Chart> trial_charts(const Json& plan) {
  const page::Axis micro_batch = {.label = "micro-batch (samples)", .log = true};
  Chart memory, throughput;
  memory.title = "Peak memory of the trials";
  memory.x = throughput.x = {micro_batch};
  memory.y = {.label = "peak", .format = Format::kBytes};
  memory.marks = trial_marks(plan);
  memory.ranges = memory_ranges(plan);
  throughput.title = "Throughput of the trials (samples/s)";
  throughput.y = {.label = "samples/s"};
  throughput.marks = {memory.marks[0]};
  for (auto& [outcome, trials] : trials_by_outcome(part_in(part_in(plan, "search"), "probes"))) {
    trials.memory.name = trials.throughput.name = outcome;
    trials.memory.draw = trials.throughput.draw = Draw::kPoints;
    memory.series.push_back(std::move(trials.memory));
    throughput.series.push_back(std::move(trials.throughput));
  }
  for (Chart* chart : {&memory, &throughput}) {  // those that fit have the first colour on every page
    std::ranges::stable_partition(chart->series, [](const Series& series) { return series.name == "fits"; });
  }
  std::vector<Chart> charts = {std::move(memory), std::move(throughput)};
  keep_measured(charts);
  return charts;
}

// ---------------------------------------------------------------- training

namespace {

std::vector<page::Mark> event_marks(const std::vector<EventRow>& events, const Clock& clock) {
  std::vector<page::Mark> marks;
  for (const EventRow& event : events) {
    if (marks.size() == kMostMarks) break;
    marks.push_back({clock.at(event.update), event.event});
  }
  return marks;
}

Series update_series(const Columns& updates, const Clock& clock, const std::string& column) {
  const Numbers* const values = updates.find(column);
  return values == nullptr ? Series{} : Series{.x = clock.columns(), .y = *values};
}

Series evaluation_series(const std::vector<EvaluationRecord>& evaluations, const Clock& clock,
                         const std::string& split, const std::string& figure) {
  Series series{.name = split, .x = std::vector<Numbers>(clock.axes().size()), .draw = Draw::kLineAndPoints};
  for (const EvaluationRecord& record : evaluations) {
    const auto value = record.figures.find(figure);
    if (record.split != split || value == record.figures.end()) continue;
    const Numbers place = clock.at(record.update);
    for (size_t axis = 0; axis < place.size(); ++axis) series.x[axis].push_back(place[axis]);
    series.y.push_back(value->second);
  }
  return series;
}

std::set<std::string> splits_of(const std::vector<EvaluationRecord>& evaluations) {
  std::set<std::string> splits;
  for (const EvaluationRecord& record : evaluations) splits.insert(record.split);
  return splits;
}

Chart loss_chart(const RunHistory& history, const Clock& clock) {
  Chart chart{
      .title = "Loss (mean over the weights of an update or data set)", .x = clock.axes(), .y = {"loss"}};
  Series training = update_series(history.updates, clock, "loss");
  training.name = "training, each update";
  training.smoothable = true;
  chart.series.push_back(std::move(training));
  for (const std::string& split : splits_of(history.evaluations)) {
    chart.series.push_back(evaluation_series(history.evaluations, clock, split, "loss"));
  }
  return chart;
}

// What the loss is made of, where the task says it.
Chart parts_chart(const RunHistory& history, const Clock& clock) {
  constexpr std::string_view kPrefix = "loss_parts.";
  Chart chart{.title = "Parts of the loss, each update", .x = clock.axes(), .y = {"loss"}};
  for (const std::string& column : history.updates.names) {
    if (!column.starts_with(kPrefix)) continue;
    Series series = update_series(history.updates, clock, column);
    series.name = column.substr(kPrefix.size());
    series.smoothable = true;
    chart.series.push_back(std::move(series));
  }
  return chart;
}

// One plot for each figure that is not the loss.
std::vector<Chart> figure_charts(const RunHistory& history, const Clock& clock) {
  std::set<std::string> figures;
  for (const EvaluationRecord& record : history.evaluations) {
    for (const auto& [name, value] : record.figures) {
      if (name != "loss") figures.insert(name);
    }
  }
  std::vector<Chart> charts;
  for (const std::string& figure : figures) {
    Chart chart{.title = figure + " (of a whole data set)", .x = clock.axes(), .y = {figure}};
    for (const std::string& split : splits_of(history.evaluations)) {
      chart.series.push_back(evaluation_series(history.evaluations, clock, split, figure));
    }
    charts.push_back(std::move(chart));
  }
  return charts;
}

Chart update_chart(const Columns& updates, const Clock& clock, const Column<UpdateRecord>& column) {
  Series series = update_series(updates, clock, column.name);
  series.name = column.plot->label;
  series.draw = column.plot->draw;
  series.smoothable = column.plot->smoothable;
  return {.title = column.plot->title,
          .x = clock.axes(),
          .y = y_axis(*column.plot, column.unit),
          .series = {std::move(series)}};
}

// Of memory there is a section of its own; a batch that stays as it is needs no plot.
bool is_of_training(const Column<UpdateRecord>& column, const Columns& updates) {
  if (!column.plot || column.unit == Unit::kBytes) return false;
  return column.name != "effective_batch" || batch_changes(updates);
}

// What the fastest and the slowest are apart is what ranks wait for each other.
Chart ranks_chart(const Columns& updates, const Clock& clock) {
  Chart chart{.title = "Passes of an update, on the slowest rank and on the fastest",
              .x = clock.axes(),
              .y = {"time", false, Format::kSeconds}};
  for (const char* const which : {"slowest", "mean", "fastest"}) {
    Series series = update_series(updates, clock, cat("rank_seconds.", which));
    series.name = which;
    chart.series.push_back(std::move(series));
  }
  return chart;
}

// The rows of a column in which another one has a number, so that lines join them where most rows have none.
Series series_where(const Columns& updates, const Clock& clock, const std::string& column,
                    const std::string& measured) {
  const Numbers *const values = updates.find(column), *const numbers = updates.find(measured);
  if (values == nullptr || numbers == nullptr) return {};
  Series series{.x = std::vector<Numbers>(clock.columns().size())};
  for (size_t row = 0; row < values->size(); ++row) {
    if (!std::isfinite((*numbers)[row])) continue;
    for (size_t axis = 0; axis < series.x.size(); ++axis)
      series.x[axis].push_back(clock.columns()[axis][row]);
    series.y.push_back((*values)[row]);
  }
  return series;
}

// Where there is no upper end there is a lower one only.
Chart noise_chart(const Columns& updates, const Clock& clock) {
  Chart chart{.title = "Gradient noise scale, over the later half of the updates so far",
              .x = clock.axes(),
              .y = {"samples", true}};
  for (const auto& [noise, metric] :
       {std::pair("gradient_noise", ""), std::pair("preconditioned_noise", "in the optimizer's metric: ")}) {
    for (const auto& [column, name] :
         {std::pair("samples", "estimate"), std::pair("low", "95 % interval, from"),
          std::pair("high", "95 % interval, to")}) {
      Series series = series_where(updates, clock, cat(noise, ".", column), cat(noise, ".trace"));
      series.name = cat(metric, name);
      chart.series.push_back(std::move(series));
    }
  }
  return chart;
}

}  // namespace

std::vector<Chart> training_charts(const RunHistory& history) {
  const Clock clock(history.updates);
  std::vector<Chart> charts = {loss_chart(history, clock), parts_chart(history, clock)};
  for (Chart& chart : figure_charts(history, clock)) charts.push_back(std::move(chart));
  for (const Column<UpdateRecord>& column : update_columns()) {
    if (is_of_training(column, history.updates))
      charts.push_back(update_chart(history.updates, clock, column));
  }
  charts.push_back(noise_chart(history.updates, clock));
  charts.push_back(ranks_chart(history.updates, clock));
  for (Chart& chart : charts) chart.marks = event_marks(history.events, clock);
  keep_measured(charts);
  return charts;
}

std::vector<Chart> memory_charts(const RunHistory& history, const Json& plan) {
  const Clock clock(history.updates);
  std::vector<Chart> charts;
  for (const Column<UpdateRecord>& column : update_columns()) {
    if (!column.plot || column.unit != Unit::kBytes) continue;
    charts.push_back(update_chart(history.updates, clock, column));
    charts.back().ranges = memory_ranges(plan);
  }
  keep_measured(charts);
  return charts;
}

// ---------------------------------------------------------------- telemetry

namespace {

// Readings that share a plot.
struct TelemetryPlot {
  std::string title;
  Format format;
  std::vector<std::pair<std::string, std::string>> readings;  // key, name
};

std::vector<TelemetryPlot> telemetry_plots() {
  return {
      {"Processors in use by this process (cores)", Format::kNumber, {{"cpu_cores", "cores"}}},
      {"Use of all processors of the machine", Format::kPercent, {{"machine_cpu_fraction", "use"}}},
      {"Resident memory of this process", Format::kBytes, {{"resident_bytes", "resident"}}},
      {"Disk traffic of this process, a second",
       Format::kBytes,
       {{"disk_read_bytes_per_second", "read"}, {"disk_written_bytes_per_second", "written"}}},
      {"Context switches (1/s)",
       Format::kNumber,
       {{"voluntary_switches_per_second", "voluntary"}, {"involuntary_switches_per_second", "involuntary"}}},
      {"Threads", Format::kNumber, {{"threads", "threads"}}},
      {"Use of the GPU",
       Format::kPercent,
       {{"gpu_fraction", "kernels running"}, {"gpu_memory_traffic_fraction", "memory traffic"}}},
      {"Memory of the GPU",
       Format::kBytes,
       {{"gpu_used_bytes", "used by all"}, {"gpu_others_bytes", "used by other processes"}}},
      {"Power of the GPU (W)", Format::kNumber, {{"gpu_watts", "power"}}},
      {"Temperature of the GPU (°C)", Format::kNumber, {{"gpu_celsius", "temperature"}}},
      {"Clock of the GPU (Hz)", Format::kNumber, {{"gpu_clock_hertz", "clock"}}},
      {"PCIe traffic of the GPU, a second",
       Format::kBytes,
       {{"pcie_in_bytes_per_second", "to the GPU"}, {"pcie_out_bytes_per_second", "from the GPU"}}},
      {"Throttle reasons of the GPU (NVML's bits)", Format::kNumber, {{"gpu_throttle_reasons", "bits"}}},
      {"Other processes on the GPU", Format::kNumber, {{"gpu_other_processes", "processes"}}},
  };
}

}  // namespace

std::vector<Chart> telemetry_charts(const Columns& telemetry) {
  const Numbers* const seconds = telemetry.find("seconds");
  const Numbers* const updates = telemetry.find("update");
  std::vector<Chart> charts;
  if (seconds == nullptr || updates == nullptr) return charts;
  for (const TelemetryPlot& plot : telemetry_plots()) {
    Chart chart{.title = plot.title,
                .x = {{.label = "time", .format = Format::kSeconds}, {"updates"}},
                .y = {.format = plot.format}};
    for (const auto& [key, name] : plot.readings) {
      const Numbers* const values = telemetry.find(key);
      if (values == nullptr) continue;
      chart.series.push_back({.name = name, .x = {*seconds, *updates}, .y = *values, .smoothable = true});
    }
    charts.push_back(std::move(chart));
  }
  keep_measured(charts);
  return charts;
}

}  // namespace autotrain
