#include "sweep/serving_columns.h"

namespace autotrain {

const ColumnsOf<ServingPoint>& serving_columns() {
  using P = ServingPoint;
  using enum Unit;
  static const ColumnsOf<P> columns = {
      column<P>("requests", &P::requests, {.heading = "requests", .unit = kCount}),
      column<P>("offered_per_second", &P::offered, {.heading = "came/s", .unit = kRate}),
      column<P>("served_per_second", &P::served, {.heading = "served/s", .unit = kRate}),
      column<P>("unstable", &P::unstable),
      column<P>("backlog", &P::backlog),
      column<P>(
          "p50_seconds", &P::p50,
          {.heading = "p50 ms",
           .unit = kMilliseconds,
           .plot =
               Plot{.title = "median time of a request; dashed: simulated", .label = "time", .log = true}}),
      column<P>("p95_seconds", &P::p95,
                {.heading = "p95",
                 .unit = kMilliseconds,
                 .plot = Plot{.title = "95th percentile", .label = "time", .log = true}}),
      column<P>("p99_seconds", &P::p99,
                {.heading = "p99",
                 .unit = kMilliseconds,
                 .plot = Plot{.title = "99th percentile; dashed: simulated", .label = "time", .log = true}}),
      column<P>("percentile_seconds", &P::asked),
      column<P>("simulated_p50_seconds", &P::simulated_p50,
                {.heading = "simulated p50", .unit = kMilliseconds}),
      column<P>("simulated_p99_seconds", &P::simulated_p99, {.heading = "p99", .unit = kMilliseconds}),
      column<P>("waiting_seconds", &P::waiting, {.heading = "mean: waiting", .unit = kMilliseconds}),
      column<P>("loading_seconds", &P::loading, {.heading = "loading", .unit = kMilliseconds}),
      column<P>("copying_seconds", &P::copying, {.heading = "copying", .unit = kMilliseconds}),
      column<P>("forward_seconds", &P::forward, {.heading = "forward", .unit = kMilliseconds}),
      column<P>("output_seconds", &P::output, {.heading = "output", .unit = kMilliseconds}),
      column<P>("md1_waiting_seconds", &P::md1_waiting, {.heading = "M/D/1 waits", .unit = kMilliseconds}),
      column<P>("mean_batch", &P::mean_batch,
                {.heading = "batch",
                 .plot = Plot{.title = "mean batch that was taken", .label = "samples", .log = true}}),
      column<P>("late_share", &P::late, {.heading = "late", .unit = kShare}),
      column<P>("peak_bytes", &P::peak_bytes, {.heading = "peak", .unit = kBytes}),
  };
  return columns;
}

const ColumnsOf<Serving>& line_columns() {
  using S = Serving;
  static const ColumnsOf<S> columns = {
      column<S>("most", &S::most, {.heading = "batch ≤"}),
      column<S>("window_ms", &S::window_ms, {.heading = "window ms"}),
      column<S>("servers", &S::servers, {.heading = "servers"}),
      column<S>("processes", &S::processes),
      column<S>("load_ahead", &S::load_ahead),
  };
  return columns;
}

}  // namespace autotrain
