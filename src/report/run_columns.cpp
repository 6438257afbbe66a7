#include "report/run_columns.h"

#include <cmath>
#include <limits>

#include "base/text.h"
#include "base/units.h"
#include "report/figures_json.h"
#include "report/noise_words.h"
#include "report/report_enums.h"

namespace autotrain {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
constexpr double kMuchStall = 0.01;  // of a run's time, that its checkpoints are worth a word

Json noise_to_json(const std::optional<GradientNoise>& noise) {
  if (!noise) return nullptr;
  Json json = {{"trace", noise->trace}, {"square", noise->square}};
  json.update(noise_scale_to_json(noise->scale.value_or(NoiseScale{.low = kUnknown})));
  return json;
}

Json rank_times_to_json(const UpdateRecord& r) {
  if (!r.ranks) return nullptr;
  return {{"fastest", r.ranks->fastest},
          {"mean", r.ranks->mean},
          {"slowest", r.ranks->slowest},
          {"slowest_rank", r.ranks->slowest_rank}};
}

Json ranks_to_json(const RunEnd& end) {
  Json rows = Json::array();
  for (const RankSummary& rank : end.ranks)
    rows.push_back({{"host", rank.host}, {"seconds", rank.seconds}, {"slowest", rank.slowest}});
  return rows;
}

void read_ranks(const Json& row, RunEnd& end) {
  for (const Json& rank : row.at("ranks")) {
    end.ranks.push_back({.host = text_in(rank, "host"),
                         .seconds = number_in(rank, "seconds"),
                         .slowest = count_in(rank, "slowest")});
  }
}

Column<RunEnd> noise_column(const std::string& name, const std::string& heading,
                            std::optional<NoiseScale> Summary::*scale) {
  return {.name = name,
          .heading = heading,
          .value = [scale](const RunEnd& end) { return noise_scale_to_json(end.*scale); },
          .read = [scale, name](const Json& row,
                                RunEnd& end) { end.*scale = noise_scale_from_json(row.at(name)); },
          .text = [scale](const RunEnd& end) { return end.*scale ? in_words(*(end.*scale)) : ""; }};
}

// How often something befell the run that most runs are spared.
Column<RunEnd> mishaps(const std::string& name, const std::string& heading, int64_t Summary::*count,
                       const std::string& what) {
  return column<RunEnd>(name, count, {.heading = heading, .text = [count, what](const RunEnd& end) {
                                        return end.*count > 0 ? cat(end.*count, " ", what) : "";
                                      }});
}

std::string trained_text(const RunEnd& end) {
  return cat(format_count(end.updates), " updates, ", fixed(end.epochs, 2), " epochs, ",
             format_count(end.samples), " samples in ", format_seconds(end.seconds));
}

// Figures that may have the update of their weights among them.
std::string at_update_text(const std::map<std::string, double>& figures) {
  const auto update = figures.find("update");
  return update == figures.end() ? figures_text(figures)
                                 : cat(figures_text(figures), " at update ", fixed(update->second, 0));
}

std::string peak_text(const RunEnd& end) {
  const std::string of =
      end.budget_bytes > 0
          ? cat(" of ", format_bytes(end.budget_bytes), " (",
                format_percent(static_cast<double>(end.peak_bytes) / static_cast<double>(end.budget_bytes)),
                ")")
          : "";
  return cat(format_bytes(end.peak_bytes), of, ", reserved plus outside the allocator");
}

std::string stall_text(const RunEnd& end) {
  if (!(end.checkpoint_stall_seconds > kMuchStall * end.seconds)) return "";
  return cat("training waited ", format_seconds(end.checkpoint_stall_seconds), " for them");
}

std::string ranks_text(const RunEnd& end) {
  if (end.ranks.empty()) return "";
  return cat(end.ranks.size(), ", waiting ", format_percent(end.rank_wait_fraction),
             " of their passes' time for the slowest one");
}

}  // namespace

const ColumnsOf<UpdateRecord>& update_columns() {
  using U = UpdateRecord;
  using enum Unit;
  using page::Draw;
  static const ColumnsOf<U> columns = {
      column<U>("update", &U::update, {.unit = kCount}),
      column<U>("epoch", &U::epoch,
                {.heading = "epoch", .text = [](const U& r) { return fixed(r.epoch, 2); }}),
      column<U>("samples", &U::samples, {.unit = kCount}),
      column<U>("effective_batch", &U::effective_batch,
                {.unit = kCount,
                 .plot = Plot{.title = "Effective batch",
                              .label = "samples per update",
                              .log = true,
                              .draw = Draw::kStep}}),
      column<U>("loss", &U::loss, {.heading = "loss", .text = [](const U& r) { return fixed(r.loss, 4); }}),
      {.name = "loss_parts",
       .value = [](const U& r) { return r.loss_parts.empty() ? Json(nullptr) : field_to_json(r.loss_parts); },
       .sparse = true},
      column<U>("lr", &U::lr,
                {.heading = "lr", .plot = Plot{.title = "Learning rate", .label = "learning rate"}}),
      column<U>("grad_norm", &U::grad_norm,
                {.plot = Plot{.title = "Gradient norm (global L2, before clipping)",
                              .label = "norm",
                              .log = true,
                              .smoothable = true}}),
      column<U>("scale", &U::scale,
                {.plot = Plot{.title = "Loss scale", .label = "scale", .draw = Draw::kStep}}),
      column<U>("samples_per_second", &U::samples_per_second,
                {.heading = "samples/s",
                 .unit = kRate,
                 .plot = Plot{.title = "Throughput (samples/s)", .label = "samples/s", .smoothable = true},
                 .timed = true}),
      column<U>(
          "peak_bytes", &U::peak_bytes,
          {.heading = "peak",
           .unit = kBytes,
           .plot = Plot{.title = "Peak memory since training started, reserved plus outside the allocator",
                        .label = "peak",
                        .draw = Draw::kStep},
           .timed = true}),
      column<U>("data_wait_fraction", &U::data_wait_fraction,
                {.unit = kShare,
                 .plot = Plot{.title = "Time spent waiting for data",
                              .label = "share of an update",
                              .smoothable = true},
                 .timed = true}),
      column<U>("training_seconds", &U::training_seconds, {.unit = kSeconds, .timed = true}),
      column<U>("activity_seconds", &U::activity_seconds, {.unit = kSeconds, .timed = true}),
      {.name = "rank_seconds", .unit = kSeconds, .value = rank_times_to_json, .sparse = true, .timed = true},
      {.name = "gradient_noise", .value = [](const U& r) { return noise_to_json(r.noise); }, .sparse = true},
      {.name = "preconditioned_noise",
       .value = [](const U& r) { return noise_to_json(r.preconditioned_noise); },
       .sparse = true},
  };
  return columns;
}

const ColumnsOf<EvaluationRecord>& evaluation_columns() {
  using E = EvaluationRecord;
  using enum Unit;
  static const ColumnsOf<E> columns = {
      column<E>("update", &E::update, {.unit = kCount}),
      column<E>("epoch", &E::epoch),
      column<E>("split", &E::split),
      column<E>("seconds", &E::seconds, {.unit = kSeconds, .timed = true}),
      column<E>("samples", &E::samples, {.unit = kCount}),
  };
  return columns;
}

const ColumnsOf<RunEnd>& summary_columns() {
  using E = RunEnd;
  using enum Unit;
  static const ColumnsOf<E> columns = {
      column<E>("status", &E::status,
                {.heading = "status",
                 .text =
                     [](const E& end) {
                       return cat(to_string(end.status), ", stopped by ", to_string(end.stopped_by),
                                  end.exit_code == 0 ? "" : cat(", exit code ", end.exit_code));
                     }}),
      {.heading = "plan", .text = [](const E& end) { return end.plan; }},
      column<E>("exit_code", &E::exit_code),
      {.name = "error",
       .heading = "error",
       .value = [](const E& end) { return end.error.empty() ? Json(nullptr) : Json(end.error); },
       .read = [](const Json& row, E& end) { end.error = text_in(row, "error"); },
       .text = [](const E& end) { return end.error; }},
      column<E>("stopped_by", &E::stopped_by),
      column<E>("updates", &E::updates, {.heading = "trained", .unit = kCount, .text = trained_text}),
      column<E>("epochs", &E::epochs),
      column<E>("samples", &E::samples, {.unit = kCount}),
      column<E>("seconds", &E::seconds, {.unit = kSeconds}),
      column<E>("samples_per_second", &E::samples_per_second,
                {.heading = "speed",
                 .unit = kRate,
                 .text =
                     [](const E& end) {
                       return cat(format_rate(end.samples_per_second), " samples/s, ",
                                  format_percent(end.data_wait_fraction), " waiting for data");
                     }}),
      column<E>("final", &E::final,
                {.heading = "final", .text = [](const E& end) { return figures_text(end.final); }}),
      column<E>("best", &E::best,
                {.heading = "best", .text = [](const E& end) { return at_update_text(end.best); }}),
      column<E>("test", &E::test,
                {.heading = "test data", .text = [](const E& end) { return at_update_text(end.test); }}),
      column<E>("figure_kinds", &E::figure_kinds),
      column<E>("tables", &E::tables),
      column<E>("peak_bytes", &E::peak_bytes, {.heading = "peak memory", .unit = kBytes, .text = peak_text}),
      mishaps("oom_recoveries", "recovered", &E::oom_recoveries, "times from memory that ran out"),
      mishaps("skipped_updates", "skipped", &E::skipped_updates, "updates were not finite"),
      mishaps("rollbacks", "rolled back", &E::rollbacks, "times to a checkpoint"),
      mishaps("bad_samples", "bad samples", &E::bad_samples,
              "left out, each with the next good one in its place; see the events in metrics.jsonl"),
      column<E>("loader_workers", &E::loader_workers, {.unit = kCount}),
      column<E>("checkpoint_stall_seconds", &E::checkpoint_stall_seconds,
                {.heading = "checkpoints", .unit = kSeconds, .text = stall_text}),
      column<E>("data_wait_fraction", &E::data_wait_fraction, {.unit = kShare}),
      column<E>("activity_seconds", &E::activity_seconds, {.unit = kSeconds}),
      column<E>("telemetry", &E::telemetry),
      noise_column("noise_scale", kNoiseScale, &E::noise_scale),
      noise_column("preconditioned_noise_scale", kPreconditionedNoiseScale, &E::preconditioned_noise_scale),
      {.name = "ranks", .heading = "ranks", .value = ranks_to_json, .read = read_ranks, .text = ranks_text},
      column<E>("rank_wait_fraction", &E::rank_wait_fraction, {.unit = kShare}),
      {.heading = "folder", .text = [](const E& end) { return end.folder; }},
  };
  return columns;
}

std::vector<std::vector<std::string>> in_words(const RunEnd& end) {
  std::vector<std::vector<std::string>> rows;
  const std::vector<std::string> headings = headings_of(summary_columns());
  const std::vector<std::string> words = table_row(summary_columns(), end);
  for (size_t i = 0; i < words.size(); ++i) {
    if (!words[i].empty()) rows.push_back({headings[i], words[i]});
  }
  return rows;
}

std::string figures_text(const std::map<std::string, double>& figures) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : figures) {
    if (name == "update") continue;
    parts.push_back(cat(name, " ", std::isfinite(value) ? fixed(value, 4) : "not finite"));
  }
  return join(parts, " · ");
}

}  // namespace autotrain
