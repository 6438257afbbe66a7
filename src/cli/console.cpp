#include "cli/console.h"

#include "base/text.h"
#include "base/units.h"
#include "plan/plan_enums.h"
#include "report/noise_words.h"
#include "report/table.h"
#include "setup/start_table.h"

namespace autotrain {
namespace {

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

std::string figures_text(const std::map<std::string, double>& figures) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : figures) {
    if (name != "update") parts.push_back(cat(name, " ", fixed(value, 4)));
  }
  return join(parts, " · ");
}

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
  log::set_sink([this, terminal = log::terminal_sink()](
                    const log::Record& record) { progress_.above([&] { terminal(record); }); },
                options.talks() ? options.log_level() : log::Level::kWarning);
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

void Console::on_update(const UpdateRecord& r, int64_t total_updates) {
  if (detail_ != Detail::kAll) return;
  if (first_update_ == 0) first_update_ = r.update, first_update_seconds_ = steady_seconds();
  if (!progress_.due()) return;
  std::string line = cat("update ", r.update);
  if (total_updates > 0) line += cat("/", total_updates);
  line += cat(" · epoch ", fixed(r.epoch, 2), " · loss ", fixed(r.loss, 4), " · lr ", brief(r.lr), " · ",
              format_rate(r.samples_per_second), " samples/s · ", format_bytes(r.peak_bytes));
  const int64_t done = r.update - first_update_;
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
  TextTable table({});
  table.add_row({"status", cat(to_string(s.status), ", stopped by ", to_string(s.stopped_by))});
  table.add_row({"plan", summary_line(plan)});
  table.add_row({"trained", cat(format_count(s.updates), " updates, ", fixed(s.epochs, 2), " epochs, ",
                                format_count(s.samples), " samples in ", format_seconds(s.seconds))});
  if (!s.final.empty()) table.add_row({"final", figures_text(s.final)});
  if (!s.best.empty())
    table.add_row({"best", cat(figures_text(s.best), " at update ", fixed(s.best.at("update"), 0))});
  table.add_row({"speed", cat(format_rate(s.samples_per_second), " samples/s, ",
                              format_percent(s.data_wait_fraction), " waiting for data")});
  if (!s.ranks.empty()) {
    table.add_row({"ranks", cat(s.ranks.size(), ", waiting ", format_percent(s.rank_wait_fraction),
                                " of their passes' time for the slowest one")});
  }
  table.add_row({"peak memory", cat(format_bytes(s.peak_bytes), " of ", format_bytes(plan.budget_bytes), " (",
                                    format_percent(static_cast<double>(s.peak_bytes) /
                                                   static_cast<double>(plan.budget_bytes)),
                                    "), reserved plus outside the allocator")});
  if (s.noise_scale) table.add_row({kNoiseScale, in_words(*s.noise_scale)});
  if (s.preconditioned_noise_scale)
    table.add_row({kPreconditionedNoiseScale, in_words(*s.preconditioned_noise_scale)});
  if (s.oom_recoveries > 0)
    table.add_row({"recovered", cat(s.oom_recoveries, " times from memory that ran out")});
  if (s.rollbacks > 0) table.add_row({"rolled back", cat(s.rollbacks, " times to a checkpoint")});
  if (s.bad_samples > 0) {
    table.add_row({"bad samples", cat(s.bad_samples,
                                      ", each with the next good one in its place; see the events "
                                      "in metrics.jsonl")});
  }
  if (s.checkpoint_stall_seconds > 0.01 * s.seconds) {
    table.add_row(
        {"checkpoints", cat("training waited ", format_seconds(s.checkpoint_stall_seconds), " for them")});
  }
  if (s.skipped_updates > 0) table.add_row({"skipped", cat(s.skipped_updates, " updates were not finite")});
  if (!s.folder.empty()) table.add_row({"folder", s.folder});
  std::string text = rule("summary") + table.text();
  if (s.status == RunStatus::kCompleted) {
    for (const std::string& sentence : advice) text += "try: " + sentence + "\n";
  }
  print(text);
}

}  // namespace autotrain
