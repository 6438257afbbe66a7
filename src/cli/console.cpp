#include "cli/console.h"

#include "base/text.h"
#include "base/units.h"
#include "device/cores.h"
#include "plan/plan_enums.h"
#include "plan/plan_words.h"
#include "report/figure_table.h"
#include "report/run_columns.h"
#include "report/table.h"
#include "setup/start_table.h"

namespace autotrain {
namespace {

constexpr size_t kMostRows = 20;  // of a table behind the summary

std::string rule(const std::string& title) {
  return title + " " + std::string(60 - title.size(), '-') + "\n";
}

std::string probe_table(const BatchPlan& plan) {
  TextTable table({"micro-batch", "peak", "fill", "samples/s", "seconds", "outcome"});
  for (const ProbeRecord& probe : plan.search.probes) {
    const bool ran = probe.peak_bytes > 0;
    table.add_row({std::to_string(probe.micro_batch), ran ? format_bytes(probe.peak_bytes) : "-",
                   ran ? format_percent(probe.fill) : "-", ran ? format_rate(probe.samples_per_second) : "-",
                   fixed(probe.seconds, 2),
                   in_words(probe.outcome) + (probe.confirmed ? ", confirmed" : "")});
  }
  return table.text();
}

}  // namespace

std::string plan_text(const BatchPlan& plan) {
  TextTable table({});
  const bool last = plan.memory_format == MemoryFormat::kChannelsLast;
  table.add_row({"device", cat(plan.device, " (", plan.device_name, "), ", to_string(plan.precision),
                               last ? ", images with their channels last" : "")});
  table.add_row(
      {"budget", cat(format_bytes(plan.budget_bytes), " (", plan.budget_source, "), band ",
                     format_percent(plan.target_low, 0), " to ", format_percent(plan.target_high, 0))});
  if (const std::string others = others_in_words(plan); !others.empty())
    table.add_row({"held by others", others});
  table.add_row(
      {"capacity", cat(plan.search.micro_batch, " samples: ", format_bytes(plan.search.peak_bytes), ", ",
                       format_percent(plan.search.fill), " of the budget; ", reason_in_words(plan))});
  table.add_row({"executed", cat(window_in_words(plan), " samples: ", fill_in_words(plan),
                                 plan.confirmed ? ", confirmed" : "")});
  for (const std::string& stage : stages_in_words(plan)) table.add_row({"updates", stage});
  if (plan.stages.empty()) {
    table.add_row({"effective batch", cat(plan.effective_batch, " samples per update")});
    table.add_row({"learning rate", cat(brief(plan.lr.base), " → ", brief(plan.lr.scaled), " (", plan.lr.rule,
                                        " rule, reference ", plan.lr.reference_batch, ")")});
  }
  if (const std::string smaller = smaller_size_advice(plan); !smaller.empty())
    table.add_row({"as fast", smaller});
  table.add_row({"search", cat(plan.search.probes.size(), " trials, ", format_count(plan.search.samples),
                               " samples, ", format_seconds(plan.search.seconds))});
  return probe_table(plan) + "\n" + table.text();
}

Console::Console(const PrintOptions& options)
    : detail_(options.json    ? Detail::kNothing
              : options.quiet ? Detail::kLastLine
                              : Detail::kAll),
      progress_(stderr, LiveText::Elsewhere::kLines) {
  log::set_sink(terminal_sink_above(progress_), options.talks() ? options.log_level() : log::Level::kWarning);
}

Console::~Console() {
  log::set_sink(log::terminal_sink(), log::Level::kWarning);
}

void Console::print(const std::string& text) {
  progress_.above([&] {
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  });
}

void Console::on_search_start(const Recipe& recipe) {
  if (detail_ == Detail::kAll && !recipe.execution.micro_batch)
    log::info("plan", "searching the micro-batch");
}

void Console::on_start(const BatchPlan& plan, const std::vector<std::vector<std::string>>& rows) {
  if (detail_ != Detail::kAll) return;
  TextTable table({});
  for (const auto& row : rows) table.add_row(row);
  print(rule("trials") + probe_table(plan) + rule("run") + table.text() + rule("training"));
}

// How many cores the process kept busy since the last line, of those that it may.
std::string Console::cores_text() {
  TelemetryValues values;
  process_->read(values);
  const auto busy = values.find("cpu_cores");
  if (busy == values.end()) return "";
  static const int64_t usable = usable_cores().count;
  return cat(" · cores ", fixed(busy->second, 1), " of ", usable);
}

void Console::on_update(const UpdateRecord& r, int64_t total_updates) {
  if (detail_ != Detail::kAll) return;
  if (first_update_ == 0) {
    first_update_ = r.update, first_update_seconds_ = steady_seconds();
    cores_text();  // what came before is not training
  }
  if (!progress_.due()) return;
  std::string line = cat("update ", r.update);
  if (total_updates > 0) line += cat("/", total_updates);
  const std::vector<std::string> headings = headings_of(update_columns());
  const std::vector<std::string> figures = table_row(update_columns(), r);
  for (size_t i = 0; i < figures.size(); ++i) line += cat(" · ", headings[i], " ", figures[i]);
  const int64_t done = r.update - first_update_;
  if (done > 0) line += cores_text();
  if (total_updates > 0 && done > 0) {
    const double each = (steady_seconds() - first_update_seconds_) / static_cast<double>(done);
    line += cat(" · ", format_seconds(each * static_cast<double>(total_updates - r.update)), " left");
  }
  progress_.show(line);
}

void Console::on_evaluation_progress(int64_t samples, int64_t total) {
  if (detail_ != Detail::kAll || !progress_.due()) return;
  progress_.show(cat("evaluating ", format_count(samples), "/", format_count(total), " samples"));
}

void Console::on_evaluation(const EvaluationRecord& record) {
  if (detail_ != Detail::kAll) return;
  print(cat("evaluation at update ", record.update, ", epoch ", fixed(record.epoch, 2), ": ",
            figures_text(record.figures), " (", format_seconds(record.seconds), ")\n"));
}

void Console::on_event(const EventRecord& record) {
  if (record.event == EventKind::kResumed) return;          // the trainer said so when it resumed
  const bool expected = record.event == EventKind::kBatch;  // the recipe asks for it
  (expected ? log::info : log::warn)(
      "trainer", cat("update ", record.update, ": ", to_string(record.event), ": ", record.detail));
}

void Console::on_finish(const Summary& s, const BatchPlan& plan, const std::vector<std::string>& advice) {
  if (detail_ == Detail::kNothing) return;
  if (detail_ == Detail::kLastLine) {
    print(cat(to_string(s.status), " after ", s.updates, " updates (", to_string(s.stopped_by),
              "): ", figures_text(s.final), " · ", s.folder, "\n"));
    return;
  }
  RunEnd end{s};
  end.plan = summary_line(plan);
  end.budget_bytes = plan.budget_bytes;
  const TextTable table({}, in_words(end));
  std::string text = rule("summary") + table.text();
  for (const FigureTable& each : s.tables) {
    if (column_names(each).empty()) continue;
    FigureTable first = each;
    first.cells.resize(std::min(each.cells.size(), kMostRows));
    text += text_of(first, class_names_of(s.folder));
    if (first.cells.size() < each.cells.size())
      text += cat("the first ", kMostRows, " of ", each.cells.size(), "; the page has all\n");
  }
  if (s.status == RunStatus::kCompleted) {
    for (const std::string& sentence : advice) text += "try: " + sentence + "\n";
  }
  print(text);
}

}  // namespace autotrain
