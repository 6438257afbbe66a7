#pragma once

#include "sweep/sweep.h"

namespace autotrain {

/// Calls `visit(name, member)` for each figure of a point that has some, in the order of sweep.json and
/// sweep.csv. @tparam Point SweepPoint or const SweepPoint
template <class Point, class Visit>
void visit_figures(Point& p, Visit&& visit) {
  visit("p50_seconds", p.p50_seconds);
  visit("p90_seconds", p.p90_seconds);
  visit("p99_seconds", p.p99_seconds);
  visit("median_half_width", p.half_width);
  visit("drift", p.drift);
  visit("repeats", p.repeats);
  visit("ended_by", p.ended_by);
  visit("samples_per_second", p.samples_per_second);
  visit("flops_per_second", p.flops_per_second);
  visit("bytes_per_second", p.bytes_per_second);
  visit("peak_bytes", p.peak_bytes);
  visit("fill", p.fill);
  visit("allocator_retries", p.allocator_retries);
  visit("swapped_bytes", p.swapped_bytes);
  visit("major_faults", p.major_faults);
  visit("copy_to_device_seconds", p.copy_to_device_seconds);
  visit("copy_to_host_seconds", p.copy_to_host_seconds);
  visit("products_share", p.products_share);
  visit("others_share", p.others_share);
  visit("products_flops_per_second", p.products_flops_per_second);
}

}  // namespace autotrain
