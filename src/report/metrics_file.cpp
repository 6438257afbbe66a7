#include "report/metrics_file.h"

#include <cmath>
#include <limits>

#include "autotrain/error.h"
#include "base/descriptors.h"
#include "base/json.h"
#include "base/text.h"
#include "report/figures_json.h"
#include "report/noise_words.h"
#include "report/report_enums.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

using Json = nlohmann::ordered_json;

constexpr double kFlushSeconds = 0.5;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

fs::path prepared(const fs::path& path, std::optional<int64_t> keep_bytes) {
  if (keep_bytes && fs::exists(path)) cut_lines(path, *keep_bytes);
  return path;
}

}  // namespace

Json finite_or_null(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

namespace {

Json noise_to_json(const GradientNoise& noise) {
  Json json = {{"trace", noise.trace}, {"square", noise.square}};
  json.update(noise_scale_to_json(noise.scale.value_or(NoiseScale{.low = kNaN})));
  return json;
}

}  // namespace

Json figures_to_json(const std::map<std::string, double>& figures) {
  Json json = Json::object();
  for (const auto& [name, value] : figures) json[name] = finite_or_null(value);
  return json;
}

MetricsFile::MetricsFile(const fs::path& path, std::optional<int64_t> keep_bytes)
    : file_(prepared(path, keep_bytes), OutputFile::Mode::kAppend),
      bytes_(static_cast<int64_t>(fs::file_size(path))) {}

MetricsFile::~MetricsFile() {
  try {
    flush();
  } catch (const std::exception&) {
    // Reported where it matters: `flush` is called before every checkpoint and at the end.
  }
}

void MetricsFile::append(const Json& row) {
  const std::string line = text_of_json(row, kOneLine);
  buffer_ += line;
  bytes_ += static_cast<int64_t>(line.size());
  if (since_flush_.seconds() >= kFlushSeconds) flush();
}

void MetricsFile::flush() {
  if (!buffer_.empty()) file_.write(buffer_);
  buffer_.clear();
  since_flush_.restart();
}

Json metrics_row(const UpdateRecord& r) {
  Json row = {{"kind", "update"},
              {"update", r.update},
              {"epoch", r.epoch},
              {"samples", r.samples},
              {"effective_batch", r.effective_batch},
              {"loss", finite_or_null(r.loss)},
              {"lr", r.lr},
              {"grad_norm", finite_or_null(r.grad_norm)},
              {"scale", r.scale},
              {"samples_per_second", finite_or_null(r.samples_per_second)},
              {"peak_bytes", r.peak_bytes},
              {"data_wait_fraction", finite_or_null(r.data_wait_fraction)},
              {"training_seconds", r.training_seconds},
              {"activity_seconds", figures_to_json(r.activity_seconds)}};
  if (r.ranks) {
    row["rank_seconds"] = {{"fastest", r.ranks->fastest},
                           {"mean", r.ranks->mean},
                           {"slowest", r.ranks->slowest},
                           {"slowest_rank", r.ranks->slowest_rank}};
  }
  if (r.noise) row["gradient_noise"] = noise_to_json(*r.noise);
  if (r.preconditioned_noise) row["preconditioned_noise"] = noise_to_json(*r.preconditioned_noise);
  return row;
}

Json metrics_row(const EvaluationRecord& r) {
  Json row = {{"kind", "evaluation"}, {"update", r.update}, {"epoch", r.epoch}, {"split", r.split}};
  row.update(figures_to_json(r.figures));
  row["seconds"] = r.seconds;
  row["samples"] = r.samples;
  return row;
}

Json metrics_row(const EventRecord& r) {
  return {{"kind", "event"}, {"update", r.update}, {"event", to_string(r.event)}, {"detail", r.detail}};
}

void for_each_row(const fs::path& path, const std::function<void(const nlohmann::ordered_json&)>& use) {
  for_each_line(path, [&](std::string_view line) {
    const auto row = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (row.is_object()) use(row);
  });
}

std::vector<Json> read_metrics(const fs::path& path) {
  std::vector<Json> rows;
  for_each_row(path, [&](const Json& row) { rows.push_back(row); });
  return rows;
}

std::string to_string(EventKind kind) {
  return to_string<EventKind>(kind);
}

std::string to_string(RunStatus status) {
  return to_string<RunStatus>(status);
}

std::string to_string(StopReason reason) {
  return to_string<StopReason>(reason);
}

namespace {

Json ranks_to_json(const std::vector<RankSummary>& ranks) {
  Json rows = Json::array();
  for (const RankSummary& rank : ranks)
    rows.push_back({{"host", rank.host}, {"seconds", rank.seconds}, {"slowest", rank.slowest}});
  return rows;
}

}  // namespace

Json summary_to_json(const Summary& s) {
  return {{"status", to_string(s.status)},
          {"exit_code", s.exit_code},
          {"error", s.error.empty() ? Json(nullptr) : Json(s.error)},
          {"stopped_by", to_string(s.stopped_by)},
          {"updates", s.updates},
          {"epochs", s.epochs},
          {"samples", s.samples},
          {"seconds", s.seconds},
          {"samples_per_second", finite_or_null(s.samples_per_second)},
          {"final", figures_to_json(s.final)},
          {"best", figures_to_json(s.best)},
          {"figure_kinds", kinds_to_json(s.figure_kinds)},
          {"tables", tables_to_json(s.tables)},
          {"peak_bytes", s.peak_bytes},
          {"oom_recoveries", s.oom_recoveries},
          {"skipped_updates", s.skipped_updates},
          {"rollbacks", s.rollbacks},
          {"bad_samples", s.bad_samples},
          {"loader_workers", s.loader_workers},
          {"checkpoint_stall_seconds", s.checkpoint_stall_seconds},
          {"data_wait_fraction", finite_or_null(s.data_wait_fraction)},
          {"activity_seconds", figures_to_json(s.activity_seconds)},
          {"telemetry", figures_to_json(s.telemetry)},
          {"noise_scale", noise_scale_to_json(s.noise_scale)},
          {"preconditioned_noise_scale", noise_scale_to_json(s.preconditioned_noise_scale)},
          {"ranks", ranks_to_json(s.ranks)},
          {"rank_wait_fraction", s.rank_wait_fraction}};
}

}  // namespace autotrain
