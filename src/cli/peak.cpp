#include "cli/peak.h"

#include <algorithm>
#include <map>

#include "base/text.h"
#include "base/units.h"
#include "report/table.h"
#include "setup/planned_bench.h"

namespace autotrain {
namespace {

constexpr size_t kShown = 10;  // tensors, and kinds of operations

std::string in_words(const OperationPlace& place) {
  if (place.operation.empty()) return "";
  return place.module.empty() ? place.operation : cat(place.operation, " of ", place.module);
}

std::string tensors_text(const PeakTrace& peak) {
  TextTable table({"bytes", "shape", "type", "made by", "in", "kept for"});
  for (size_t i = 0; i < std::min(kShown, peak.tensors.size()); ++i) {
    const PeakTensor& tensor = peak.tensors[i];
    table.add_row({format_bytes(tensor.bytes), cat(c10::IntArrayRef(tensor.shape)), lower(tensor.type),
                   in_words(tensor.made_by), to_string(tensor.made_in), in_words(tensor.kept_for)});
  }
  return table.text();
}

// Of all tensors, by the operation that made them.
std::string operations_text(const PeakTrace& peak) {
  struct Sum {
    int64_t bytes = 0, tensors = 0;
  };
  std::map<std::string, Sum> by_name;
  for (const PeakTensor& tensor : peak.tensors) {
    Sum& sum = by_name[tensor.made_by.operation];
    sum.bytes += tensor.bytes;
    ++sum.tensors;
  }
  std::vector<std::pair<std::string, Sum>> sorted(by_name.begin(), by_name.end());
  std::ranges::stable_sort(sorted,
                           [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
  TextTable table({"made by", "bytes", "share", "tensors"});
  for (size_t i = 0; i < std::min(kShown, sorted.size()); ++i) {
    const auto& [name, sum] = sorted[i];
    table.add_row({name, format_bytes(sum.bytes),
                   format_percent(static_cast<double>(sum.bytes) /
                                  static_cast<double>(std::max<int64_t>(1, peak.made_bytes))),
                   std::to_string(sum.tensors)});
  }
  return table.text();
}

nlohmann::ordered_json place_to_json(const OperationPlace& place) {
  return {{"operation", place.operation}, {"module", place.module}};
}

}  // namespace

PeakTrace peak_of(const Recipe& recipe, const BatchPlan& plan) {
  const auto bench = assemble_as_planned(recipe, plan);
  return trace_peak(*bench, plan.micro_batch, std::min(plan.effective_batch, 2 * plan.micro_batch));
}

std::string peak_text(const PeakTrace& peak) {
  const int64_t all = peak.held_before_bytes + peak.made_bytes;
  std::string text =
      cat("peak of an update: ", format_bytes(all), " of tensors after ", in_words(peak.at), " (",
          to_string(peak.phase), ", operation ", peak.operation, " of ", peak.operations, ")\n  ",
          format_bytes(peak.held_before_bytes),
          " were there before: weights, state of the optimizer, data that are held\n  ",
          format_bytes(peak.made_bytes), " in ", peak.tensors.size(), " tensors that operations had made\n  ",
          format_bytes(peak.measured_bytes), " is what the allocator counted at its peak");
  if (peak.measured_bytes > all)
    text += cat(": ", format_bytes(peak.measured_bytes - all),
                " more, of samples that wait and of what operations take within");
  return cat(text, "\n\n", operations_text(peak), "\n", tensors_text(peak));
}

nlohmann::ordered_json peak_to_json(const PeakTrace& peak) {
  nlohmann::ordered_json json = {{"held_before_bytes", peak.held_before_bytes},
                                 {"made_bytes", peak.made_bytes},
                                 {"measured_bytes", peak.measured_bytes},
                                 {"at", place_to_json(peak.at)},
                                 {"phase", to_string(peak.phase)},
                                 {"operation", peak.operation},
                                 {"operations", peak.operations},
                                 {"tensors", nlohmann::ordered_json::array()}};
  for (const PeakTensor& tensor : peak.tensors) {
    json["tensors"].push_back({{"bytes", tensor.bytes},
                               {"shape", tensor.shape},
                               {"type", lower(tensor.type)},
                               {"made_by", place_to_json(tensor.made_by)},
                               {"made_in", to_string(tensor.made_in)},
                               {"kept_for", place_to_json(tensor.kept_for)}});
  }
  return json;
}

}  // namespace autotrain
