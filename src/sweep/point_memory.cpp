#include "sweep/point_memory.h"

#include <unistd.h>

#include "base/json.h"
#include "device/system_memory.h"

namespace autotrain {
namespace {

// A figure of a measurement; nothing where it is null or an older version left it out.
std::optional<double> told(const StudyResult& round, const char* name) {
  return optional_number(round.value.value(name, nlohmann::ordered_json(nullptr)));
}

void add_told(std::optional<double>& sum, const std::optional<double>& part) {
  if (part) sum = sum.value_or(0) + *part;
}

}  // namespace

std::optional<double> PointMemory::fragmentation_bytes() const {
  if (!allocated_bytes || !reserved_bytes) return std::nullopt;
  return *reserved_bytes - *allocated_bytes;
}

PointMemory summarise_memory(const std::vector<StudyResult>& rounds) {
  PointMemory memory;
  for (const StudyResult& round : rounds) {
    if (round.failed()) return {};
    const std::optional<double> reserved = told(round, "reserved_bytes");
    if (reserved && *reserved >= memory.reserved_bytes.value_or(0)) {
      memory.reserved_bytes = reserved;
      memory.allocated_bytes = told(round, "allocated_bytes");
    }
    add_told(memory.swapped_in_bytes, told(round, "machine_swapped_in_bytes"));
    add_told(memory.swapped_out_bytes, told(round, "machine_swapped_out_bytes"));
  }
  return memory;
}

std::optional<MachineSwapping> machine_swapping(const std::filesystem::path& root) {
  const auto counters = read_kernel_table(root / "proc/vmstat");  // in pages
  const auto in = counters.find("pswpin"), out = counters.find("pswpout");
  if (in == counters.end() || out == counters.end()) return std::nullopt;
  const int64_t page = ::sysconf(_SC_PAGESIZE);
  return MachineSwapping{in->second * page, out->second * page};
}

}  // namespace autotrain
