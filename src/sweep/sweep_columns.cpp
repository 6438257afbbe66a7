#include "sweep/sweep_columns.h"

#include "base/text.h"
#include "base/units.h"
#include "plan/plan_enums.h"
#include "plan/plan_json.h"

namespace autotrain {
namespace {

using Json = nlohmann::ordered_json;

std::string copies_of(const SweepPoint& p) {
  if (!p.copy_to_device_seconds) return "none";
  return cat(milliseconds(*p.copy_to_device_seconds), " + ", milliseconds(*p.copy_to_host_seconds));
}

Json trials_to_json(const LargestBatch& l) {
  Json trials = Json::array();
  for (const ProbeRecord& trial : l.trials) trials.push_back(probe_to_json(trial));
  return trials;
}

void read_trials(const Json& row, LargestBatch& l) {
  for (const Json& trial : row.at("trials")) l.trials.push_back(probe_from_json(trial));
}

}  // namespace

const ColumnsOf<SweepPoint>& point_columns() {
  using P = SweepPoint;
  using enum Unit;
  static const ColumnsOf<P> columns = {
      column<P>("p50_seconds", &P::p50_seconds,
                {.heading = "p50 ms",
                 .unit = kMilliseconds,
                 .plot = Plot{.title = "median latency of a call; shaded: up to the 99th percentile",
                              .label = "latency",
                              .log = true}}),
      column<P>("p90_seconds", &P::p90_seconds, {.heading = "p90", .unit = kMilliseconds}),
      column<P>("p99_seconds", &P::p99_seconds, {.heading = "p99", .unit = kMilliseconds}),
      column<P>("median_half_width", &P::half_width, {.heading = "p50 ±", .unit = kShare}),
      column<P>("drift", &P::drift, {.heading = "drift", .unit = kShare}),
      column<P>("repeats", &P::repeats),
      column<P>("ended_by", &P::ended_by),
      column<P>("samples_per_second", &P::samples_per_second,
                {.heading = "samples/s",
                 .unit = kRate,
                 .plot = Plot{.title = "throughput (samples/s)", .label = "samples/s", .log = true}}),
      column<P>("flops_per_second", &P::flops_per_second,
                {.heading = "FLOP/s",
                 .unit = kRate,
                 .plot = Plot{.title = "arithmetic (FLOP/s)", .label = "FLOP/s", .log = true}}),
      column<P>("bytes_per_second", &P::bytes_per_second, {.heading = "bytes/s", .unit = kRate}),
      column<P>("peak_bytes", &P::peak_bytes,
                {.heading = "peak",
                 .unit = kBytes,
                 .plot = Plot{.title = "peak memory", .label = "memory", .log = true}}),
      column<P>("fill", &P::fill, {.heading = "fill", .unit = kShare}),
      column<P>("allocator_retries", &P::allocator_retries),
      column<P>("swapped_bytes", &P::swapped_bytes),
      column<P>("major_faults", &P::major_faults),
      column<P>("copy_to_device_seconds", &P::copy_to_device_seconds,
                {.heading = "copies ms", .text = copies_of}),
      column<P>("copy_to_host_seconds", &P::copy_to_host_seconds),
      column<P>("products_share", &P::products_share),
      column<P>("others_share", &P::others_share),
      column<P>("products_flops_per_second", &P::products_flops_per_second),
      {.name = "cuda_graphs",
       .value = [](const P& p) -> Json { return p.cuda_graphs; },
       .read = [](const Json& row, P& p) { p.cuda_graphs = row.value("cuda_graphs", false); }},
  };
  return columns;
}

const ColumnsOf<PointMemory>& memory_columns() {
  using M = PointMemory;
  using enum Unit;
  static const ColumnsOf<M> columns = {
      column<M>("allocated_bytes", &M::allocated_bytes),
      column<M>("reserved_bytes", &M::reserved_bytes),
      {.name = "fragmentation_bytes",
       .heading = "fragmented",
       .unit = kBytes,
       .value = [](const M& m) -> Json { return or_null(m.fragmentation_bytes()); }},
      column<M>("machine_swapped_in_bytes", &M::swapped_in_bytes),
      column<M>("machine_swapped_out_bytes", &M::swapped_out_bytes),
  };
  return columns;
}

const ColumnsOf<EndToEnd>& end_to_end_columns() {
  using E = EndToEnd;
  using enum Unit;
  static const ColumnsOf<E> columns = {
      column<E>("samples_per_second", &E::samples_per_second, {.heading = "end to end", .unit = kRate}),
      column<E>("drift", &E::drift, {.heading = "drift", .unit = kShare}),
      {.heading = "of the forward pass",
       .text = [](const E& e) { return format_percent(e.samples_per_second / e.forward, 0); }},
      column<E>("waiting_share", &E::waiting_share, {.heading = "waits", .unit = kShare}),
      column<E>("loading_samples_per_second", &E::loading, {.heading = "loading", .unit = kRate}),
      column<E>("copying_samples_per_second", &E::copying, {.heading = "copying", .unit = kRate}),
      column<E>("forward_samples_per_second", &E::forward, {.heading = "forward", .unit = kRate}),
      column<E>("output_samples_per_second", &E::output, {.heading = "output", .unit = kRate}),
      column<E>("workers", &E::workers),
      column<E>("prefetch_batches", &E::prefetch_batches),
      column<E>("peak_bytes", &E::peak_bytes, {.heading = "peak", .unit = kBytes}),
      {.name = "slowest_stage",
       .heading = "slowest",
       .value = [](const E& e) -> Json { return to_string(e.slowest().first); },
       .text =
           [](const E& e) {
             return cat(to_string(e.slowest().first), e.stages_compete() ? ", competing" : "");
           }},
      {.name = "stages_compete", .value = [](const E& e) -> Json { return e.stages_compete(); }},
  };
  return columns;
}

const ColumnsOf<LargestBatch>& largest_columns() {
  using L = LargestBatch;
  using enum Unit;
  static const ColumnsOf<L> columns = {
      column<L>("batch", &L::batch, {.heading = "batch", .text = [](const L& l) { return cat(l.batch); }}),
      column<L>("reason", &L::reason, {.heading = "reason"}),
      column<L>("fill", &L::fill, {.heading = "fill", .unit = kShare}),
      column<L>("peak_bytes", &L::peak_bytes, {.heading = "peak", .unit = kBytes}),
      column<L>("budget_bytes", &L::budget_bytes),
      column<L>("samples_per_second", &L::samples_per_second, {.heading = "samples/s", .unit = kRate}),
      {.name = "trials",
       .heading = "trials",
       .value = trials_to_json,
       .read = read_trials,
       .text = [](const L& l) { return cat(l.trials.size()); }},
  };
  return columns;
}

}  // namespace autotrain
