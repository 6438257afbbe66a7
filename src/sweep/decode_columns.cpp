#include "sweep/decode_columns.h"

namespace autotrain {

const ColumnsOf<DecodePoint>& decode_columns() {
  using P = DecodePoint;
  using enum Unit;
  static const ColumnsOf<P> columns = {
      column<P>("tokens_per_second", &P::tokens_per_second,
                {.heading = "tokens/s",
                 .unit = kRate,
                 .plot = Plot{.title = "decode throughput (tokens/s)", .label = "tokens/s", .log = true}}),
      column<P>("p50_seconds", &P::p50_seconds,
                {.heading = "p50 ms",
                 .unit = kMilliseconds,
                 .plot = Plot{.title = "time of a token; dashed: the bound", .label = "time", .log = true}}),
      column<P>("p99_seconds", &P::p99_seconds, {.heading = "p99", .unit = kMilliseconds}),
      column<P>("median_half_width", &P::half_width, {.heading = "p50 ±", .unit = kShare}),
      column<P>("drift", &P::drift, {.heading = "drift", .unit = kShare}),
      column<P>("repeats", &P::repeats),
      column<P>("experts_read", &P::experts_read),
      column<P>("experts_expected", &P::experts_expected),
      column<P>("busiest_expert", &P::busiest),
      column<P>("weight_bytes", &P::weight_bytes, {.heading = "weights", .unit = kBytes}),
      column<P>("cache_bytes", &P::cache_bytes, {.heading = "cache", .unit = kBytes}),
      column<P>("bytes_per_second", &P::bytes_per_second, {.heading = "read/s", .unit = kRate}),
      column<P>("reading_seconds", &P::reading_seconds, {.heading = "reading ms", .unit = kMilliseconds}),
      column<P>("computing_seconds", &P::computing_seconds, {.heading = "computing", .unit = kMilliseconds}),
      column<P>("reached", &P::reached,
                {.heading = "of the bound",
                 .unit = kShare,
                 .plot = Plot{.title = "bound ÷ measured time", .label = "of the bound"}}),
      column<P>("prefill_seconds", &P::prefill_seconds, {.heading = "prefill ms", .unit = kMilliseconds}),
      column<P>("prefill_tokens_per_second", &P::prefill_tokens_per_second,
                {.heading = "prefill tokens/s", .unit = kRate}),
      column<P>("peak_bytes", &P::peak_bytes, {.heading = "peak", .unit = kBytes}),
  };
  return columns;
}

const ColumnsOf<BatchingComparison>& batching_columns() {
  using B = BatchingComparison;
  using enum Unit;
  static const ColumnsOf<B> columns = {
      column<B>("slots", &B::slots, {.heading = "slots"}),
      column<B>("context", &B::context, {.heading = "context"}),
      column<B>("requests", &B::requests, {.heading = "requests"}),
      column<B>("tokens", &B::tokens, {.heading = "tokens", .unit = kCount}),
      column<B>("static_tokens_per_second", &B::static_tokens_per_second,
                {.heading = "static tokens/s", .unit = kRate}),
      column<B>("continuous_tokens_per_second", &B::continuous_tokens_per_second,
                {.heading = "continuous tokens/s", .unit = kRate}),
      column<B>("gain", &B::gain, {.heading = "ratio"}),
      column<B>("static_steps", &B::static_steps, {.heading = "static steps"}),
      column<B>("continuous_steps", &B::continuous_steps, {.heading = "continuous steps"}),
      column<B>("static_use", &B::static_use, {.heading = "static places used", .unit = kShare}),
      column<B>("continuous_use", &B::continuous_use, {.heading = "continuous places used", .unit = kShare}),
      column<B>("alone", &B::alone),
      column<B>("same_alone", &B::same_alone),
  };
  return columns;
}

}  // namespace autotrain
