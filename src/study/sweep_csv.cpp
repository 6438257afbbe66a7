#include "report/csv_file.h"
#include "study/sweep.h"

namespace autotrain {
namespace {

using Cells = std::vector<std::string>;

std::string cell(const std::optional<double>& number) {
  return number ? csv_number(*number) : "";
}

Cells cells_of(const SweepPoint& p) {
  if (!p.failure.empty()) return Cells(16);
  return {csv_number(p.p50_seconds),
          csv_number(p.p90_seconds),
          csv_number(p.p99_seconds),
          cell(p.half_width),
          csv_number(p.drift),
          std::to_string(p.repeats),
          csv_number(p.samples_per_second),
          csv_number(p.flops_per_second),
          cell(p.bytes_per_second),
          std::to_string(p.peak_bytes),
          csv_number(p.fill),
          std::to_string(p.allocator_retries),
          std::to_string(p.swapped_bytes),
          std::to_string(p.major_faults),
          cell(p.copy_to_device_seconds),
          cell(p.copy_to_host_seconds)};
}

}  // namespace

std::string to_csv(const Sweep& sweep) {
  std::string text = csv_line({"key",
                               "value",
                               "precision",
                               "batch",
                               "failure",
                               "p50_seconds",
                               "p90_seconds",
                               "p99_seconds",
                               "median_half_width",
                               "drift",
                               "repeats",
                               "samples_per_second",
                               "flops_per_second",
                               "bytes_per_second",
                               "peak_bytes",
                               "fill",
                               "allocator_retries",
                               "swapped_bytes",
                               "major_faults",
                               "copy_to_device_seconds",
                               "copy_to_host_seconds",
                               "predicted_batch",
                               "knee_batch"});
  for (const SweepVariant& variant : sweep.variants) {
    for (const SweepPoint& point : variant.points) {
      Cells line = {sweep.key, variant.value, variant.precision, std::to_string(point.batch), point.failure};
      const Cells figures = cells_of(point);
      line.insert(line.end(), figures.begin(), figures.end());
      line.push_back(variant.predicted > 0 ? csv_number(variant.predicted) : "");
      line.push_back(variant.knee ? csv_number(variant.knee->batch) : "");
      text += csv_line(line);
    }
  }
  return text;
}

}  // namespace autotrain
