#include "report/run_page.h"

#include <algorithm>
#include <cmath>

#include "autotrain/error.h"
#include "base/command_line.h"
#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "base/units.h"
#include "base/version.h"
#include "report/figure_table.h"
#include "report/found_boxes_section.h"
#include "report/run_charts.h"
#include "report/run_columns.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

using Json = nlohmann::ordered_json;
constexpr size_t kMostEvents = 1000;
constexpr const char* kPrecisionTable = "precision";  // of metrics of found boxes: by recall

// What can be read of summary.json, which may be damaged or of another version.
RunEnd read_end(const Json& summary, const Json& plan) {
  RunEnd end;
  read_what_is_there(summary_columns(), summary, end);
  end.budget_bytes = count_in(plan, "budget_bytes");
  return end;
}

page::Table activity_table(const Summary& summary) {
  page::Table table{.title = "Where the time of the whole run went",
                    .header = {"activity", "seconds", "share"}};
  double all = 0;
  for (const auto& [name, seconds] : summary.activity_seconds) all += seconds;
  if (!(all > 0)) return table;
  for (const auto& [name, seconds] : summary.activity_seconds)
    table.rows.push_back({name, fixed(seconds, 3), format_percent(seconds / all)});
  return table;
}

page::Table ranks_table(const Summary& summary) {
  page::Table table{
      .title = cat("The ranks' passes: a rank waited ", format_percent(summary.rank_wait_fraction),
                   " of their time for the slowest one"),
      .header = {"rank", "host", "seconds of passes", "updates it was the slowest in"}};
  int64_t number = 0;
  for (const RankSummary& rank : summary.ranks) {
    table.rows.push_back({cat(number++), rank.host, fixed(rank.seconds, 3), format_count(rank.slowest)});
  }
  return table;
}

// Each row's cells are as dark as their share of it, unless columns are of different things.
page::Table table_of(const FigureTable& from, const std::vector<std::string>& classes) {
  const bool shaded = column_names(from).empty();
  page::Table table{
      .title = shaded ? cat(from.name, ": ", from.rows_are, " (rows), ", from.columns_are, " (columns)")
                      : from.name,
      .header = {shaded ? "" : from.rows_are}};
  for (std::string& heading : column_headings(from)) table.header.push_back(std::move(heading));
  for (size_t r = 0; r < from.cells.size(); ++r) {
    table.rows.push_back({row_name(from, r, classes)});
    for (std::string& cell : cells_in_words(from, r)) table.rows.back().push_back(std::move(cell));
    if (!shaded) continue;
    double all = 0;
    for (const double cell : from.cells[r]) all += cell;
    table.shade.push_back({0});
    for (const double cell : from.cells[r]) table.shade.back().push_back(all > 0 ? cell / all : 0);
  }
  return table;
}

// How precise the found boxes are where a share of the objects is found: their mean over the classes that
// have objects, and the curve of each where these are few enough to be told apart.
page::Chart precision_chart(const FigureTable& from, const std::vector<std::string>& classes) {
  constexpr size_t kMostCurves = 12;
  page::Chart chart{.title = "precision of found boxes (overlap of 0.5)",
                    .x = {{.label = "recall", .format = page::Format::kPercent}},
                    .y = {.format = page::Format::kPercent}};
  std::vector<page::Series> curves;
  for (size_t r = 0; r < from.cells.size(); ++r) {
    const std::vector<double>& cells = from.cells[r];
    if (cells.size() < 2 || !(cells.front() >= 0)) continue;  // nothing of this class was there
    page::Series& series = curves.emplace_back(
        page::Series{.name = r < classes.size() ? classes[r] : cat("class ", r), .x = {{}}, .y = cells});
    for (size_t i = 0; i < cells.size(); ++i)
      series.x[0].push_back(static_cast<double>(i) / static_cast<double>(cells.size() - 1));
  }
  if (curves.empty()) return chart;
  page::Series mean{.name = "mean of classes",
                    .x = curves[0].x,
                    .y = std::vector<double>(curves[0].y.size()),
                    .draw = page::Draw::kLineAndPoints};
  for (const page::Series& each : curves)
    for (size_t i = 0; i < mean.y.size() && i < each.y.size(); ++i)
      mean.y[i] += each.y[i] / static_cast<double>(curves.size());
  chart.series.push_back(std::move(mean));
  if (curves.size() > 1 && curves.size() <= kMostCurves)
    for (page::Series& each : curves) chart.series.push_back(std::move(each));
  return chart;
}

page::Section outcome_section(const fs::path& folder, const Json& summary, const Json& plan,
                              const RunPageExtras& extras) {
  page::Section section{.title = "Outcome", .paragraphs = extras.plan_sentences};
  if (extras.plan_sentences.empty()) {
    section.paragraphs.push_back(
        "There is no readable plan.json: the run ended before it had a plan, or was killed.");
  }
  if (summary.empty()) {
    section.paragraphs.push_back(
        "There is no readable summary.json: the run goes on, or it was killed. What follows is "
        "what it had written by then.");
    return section;
  }
  const RunEnd end = read_end(summary, plan);
  section.tables.push_back({.rows = in_words(end)});
  page::Table activities = activity_table(end);
  if (!activities.rows.empty()) section.tables.push_back(std::move(activities));
  page::Table ranks = ranks_table(end);
  if (!ranks.rows.empty()) section.tables.push_back(std::move(ranks));
  const std::vector<std::string> classes = class_names_of(folder);
  for (const FigureTable& table : end.tables) {
    if (table.name != kPrecisionTable)
      section.tables.push_back(table_of(table, classes));
    else if (page::Chart chart = precision_chart(table, classes); !chart.series.empty())
      section.charts.push_back(std::move(chart));
  }
  return section;
}

page::Section search_section(const Json& plan) {
  page::Section section{.title = "How the micro-batch was found", .charts = trial_charts(plan)};
  page::Table table{.header = {"trial", "micro-batch", "peak", "fill", "samples/s", "seconds", "outcome"}};
  for (const Json& probe : part_in(part_in(plan, "search"), "probes")) {
    const bool ran = count_in(probe, "peak_bytes") > 0;
    table.rows.push_back({std::to_string(table.rows.size() + 1),
                          std::to_string(count_in(probe, "micro_batch")),
                          ran ? format_bytes(count_in(probe, "peak_bytes")) : "–",
                          ran ? format_percent(number_in(probe, "fill")) : "–",
                          ran ? format_rate(number_in(probe, "samples_per_second")) : "–",
                          fixed(number_in(probe, "seconds"), 3),
                          text_in(probe, "outcome") + (flag_in(probe, "confirmed") ? ", confirmed" : "")});
  }
  if (table.rows.empty())
    section.paragraphs.push_back("No trial is on record.");
  else
    section.tables.push_back(std::move(table));
  return section;
}

page::Section training_section(const RunHistory& history) {
  page::Section section{.title = "Training", .charts = training_charts(history)};
  if (history.updates.rows() == 0) {
    section.paragraphs.push_back("No update is on record: metrics.jsonl is missing, or has no row of one.");
  } else {
    section.paragraphs.push_back(
        "Of each plot the x axis, logarithms and smoothing can be switched; a stretch drawn with the mouse "
        "is shown "
        "larger, a double click shows all again. Dashed vertical lines are events.");
  }
  return section;
}

page::Section machine_section(const fs::path& folder, const RunHistory& history, const Json& plan) {
  page::Section section{.title = "Memory and machine", .charts = memory_charts(history, plan)};
  const std::vector<page::Chart> telemetry = telemetry_charts(read_columns(folder / "telemetry.jsonl"));
  section.charts.insert(section.charts.end(), telemetry.begin(), telemetry.end());
  if (telemetry.empty()) {
    section.paragraphs.push_back(
        "No telemetry is on record: execution.telemetry was 0, or the run ended within its "
        "first interval.");
  }
  return section;
}

page::Section events_section(const std::vector<EventRow>& events) {
  page::Section section{.title = cat("Events (", format_count(static_cast<int64_t>(events.size())), ")"),
                        .open = !events.empty()};
  if (events.empty()) {
    section.paragraphs.push_back("Nothing befell the run.");
    return section;
  }
  if (events.size() > kMostEvents) {
    section.paragraphs.push_back(cat("The first ", kMostEvents, " are shown; all stand in metrics.jsonl."));
  }
  page::Table table{.header = {"update", "event", "detail"}};
  for (const EventRow& event : events) {
    if (table.rows.size() == kMostEvents) break;
    table.rows.push_back({std::to_string(event.update), event.event, event.detail});
  }
  section.tables.push_back(std::move(table));
  return section;
}

page::Section recipe_section(const fs::path& folder, const RunPageExtras& extras) {
  page::Section section{.title = "Recipe"};
  const fs::path path = folder / "recipe.yaml";
  if (!fs::exists(path)) {
    section.paragraphs.push_back("There is no recipe.yaml.");
    return section;
  }
  if (!extras.changed_keys.empty()) {
    section.tables.push_back({.title = "What differs from the defaults",
                              .header = {"key", "default", "here"},
                              .rows = extras.changed_keys});
  }
  section.listings.push_back({"All of it, defaults spelled out:", read_file(path)});
  return section;
}

page::Section reproduce_section(const fs::path& folder, const Json& plan, const Json& summary) {
  const std::string run = "autotrain --config " + shell_word((folder / "recipe.yaml").string());
  page::Section section{.title = "Again",
                        .paragraphs = {cat("From the folder that the run was started in, with autotrain ",
                                           version(), " and the same data:")}};
  section.listings.push_back({"the same run, search included", run});
  if (const int64_t micro_batch = count_in(plan, "micro_batch"); micro_batch > 0) {
    section.listings.push_back(
        {"the same updates without a search", cat(run, " --set execution.micro_batch=", micro_batch)});
  }
  if (text_in(summary, "status") != "completed") {
    section.listings.push_back({"go on from its newest checkpoint",
                                cat(run, " --output ", shell_word(folder.string()), " --resume")});
  }
  section.listings.push_back({"this page, drawn again", "autotrain report " + shell_word(folder.string())});
  return section;
}

std::string name_of_folder(const fs::path& folder) {
  const fs::path whole = fs::absolute(folder).lexically_normal();
  return (whole.has_filename() ? whole : whole.parent_path()).filename().string();
}

// The series of one run among those of others: in its own colour, under its name.
void join_charts(std::vector<page::Chart>& all, std::vector<page::Chart> charts, const std::string& run,
                 size_t colour) {
  for (page::Chart& chart : charts) {
    for (page::Series& series : chart.series) {
      series.name = run + (chart.series.size() > 1 ? " · " + series.name : "");
      series.colour = colour;
    }
    const auto same = std::ranges::find(all, chart.title, &page::Chart::title);
    chart.marks.clear();
    if (same == all.end()) {
      all.push_back(std::move(chart));
    } else if (same->x.size() == chart.x.size()) {
      same->series.insert(same->series.end(), chart.series.begin(), chart.series.end());
    }
  }
}

}  // namespace

page::Page together_page(const std::vector<NamedHistory>& runs) {
  page::Section section{.title = "Training"};
  page::Section events{.title = "Events", .open = false};
  for (size_t i = 0; i < runs.size(); ++i) {
    join_charts(section.charts, training_charts(runs[i].history), runs[i].name, i);
    page::Section own = events_section(runs[i].history.events);
    if (own.tables.empty()) continue;
    own.tables[0].title = runs[i].name;
    events.tables.push_back(std::move(own.tables[0]));
  }
  return {.title = cat(runs.size(), " runs"),
          .subtitle = "training of several runs of autotrain, side by side",
          .sections = {std::move(section), std::move(events)}};
}

page::Page run_page(const fs::path& folder, const RunHistory& history, const RunPageExtras& extras) {
  const Json plan = read_json(folder / "plan.json"), summary = read_json(folder / "summary.json");
  const std::string status = summary.empty() ? "no summary" : text_in(summary, "status");
  page::Page page{
      .title = name_of_folder(folder),
      .subtitle = cat("a run of autotrain · ", status, " · ",
                      format_count(static_cast<int64_t>(history.updates.rows())), " updates on record"),
      .sections = {outcome_section(folder, summary, plan, extras), training_section(history),
                   search_section(plan), machine_section(folder, history, plan),
                   events_section(history.events), recipe_section(folder, extras),
                   reproduce_section(folder, plan, summary)}};
  if (std::optional<page::Section> found = found_boxes_section(folder))
    page.sections.insert(page.sections.begin() + 1, *std::move(found));
  return page;
}

}  // namespace autotrain
