#include "plan/memory_statement.h"

#include <algorithm>
#include <bit>

#include "base/text.h"
#include "base/units.h"
#include "step/precision.h"

namespace autotrain {
namespace {

void add_line(std::string& out, const std::string& what, int64_t bytes) {
  if (bytes <= 0) return;
  out += cat("\n    ", what, std::string(what.size() < 26 ? 26 - what.size() : 1, ' '), format_bytes(bytes));
}

// The budget would have allowed what the system refused.
std::string refused_by(const Refusal& refusal) {
  if (!refusal.by_system) return " by the budget";
  if (refusal.others_bytes <= 0) return " by the system";
  return cat(" because memory of the device is short, which the budget would have allowed: others hold ",
             format_bytes(refusal.others_bytes), " of it");
}

constexpr const char* kCountedOnGpu =
    "\n  it counts what this process adds on the device after its warm-up: tensors with their fragmentation, "
    "and what libraries take beyond it";

}  // namespace

std::string describe(const Refusal& refusal) {
  std::string out = "\n  refused";
  if (refusal.requested_bytes > 0) out += " a block of " + format_bytes(refusal.requested_bytes);
  out += cat(" in phase ", refusal.phase, refused_by(refusal), ", with ",
             format_bytes(refusal.allocated_bytes), " in use and ",
             format_bytes(std::max<int64_t>(0, refusal.reserved_bytes - refusal.allocated_bytes)),
             " fragmented or free");
  if (!refusal.by_phase.empty()) {
    out += "\n  in use then, by the phase that allocated it";
    for (const LiveBlock& row : refusal.by_phase) add_line(out, row.phase, row.bytes);
  }
  if (!refusal.largest.empty()) {
    out += "\n  largest blocks then";
    for (const LiveBlock& row : refusal.largest)
      add_line(out, cat(row.count, " × ", row.phase, ", each"), row.bytes);
  }
  return out;
}

// Lanes are accumulated apart, and what other ranks send stands beside what this one has.
int64_t gradient_buffers(int64_t lanes, bool several_ranks) {
  return static_cast<int64_t>(std::bit_width(static_cast<uint64_t>(lanes))) + (several_ranks ? 1 : 0);
}

MemoryStatement memory_statement(const Workbench& bench) {
  MemoryStatement s;
  s.budget = bench.device->budget_bytes();
  for (const NamedTensor& parameter : bench.optimizer->parameters()) {
    const auto bytes = static_cast<int64_t>(parameter.tensor.nbytes());
    s.parameters += bytes;
    s.gradients += bytes;
    // Autocast keeps a two-byte copy of every four-byte weight that is multiplied.
    if (is_half(bench.precision) && parameter.tensor.dim() >= 2) s.autocast_copies += bytes / 2;
  }
  for (const auto& buffer : bench.task->module().named_buffers()) {
    s.buffers += static_cast<int64_t>(buffer.value().nbytes());
  }
  s.gradients *= gradient_buffers(bench.lanes.count, bench.ranks->several());
  s.optimizer_state = bench.optimizer->state_bytes() + bench.optimizer->scratch_bytes();
  const int64_t held = bench.device->memory().allocated_bytes();
  s.data = std::max<int64_t>(0, held - s.parameters - s.optimizer_state - s.buffers);
  s.outside = bench.device->memory().peak().outside_bytes;
  s.shapes = bench.device->shapes_met();
  s.others = bench.device->used_by_others_bytes();
  s.machine = bench.device->own_at_start_bytes();
  s.on_gpu = !bench.device->torch_device().is_cpu();
  return s;
}

std::string outside_in_words(const MemoryStatement& s) {
  return cat(format_bytes(s.outside), s.shapes > 0 ? cat(" for ", s.shapes, " shapes") : "");
}

std::string describe(const MemoryStatement& s, const std::optional<Refusal>& refusal) {
  std::string out = cat("\n  the budget of ", format_bytes(s.budget), " goes to");
  add_line(out, "parameters", s.parameters);
  add_line(out, "gradients", s.gradients);
  add_line(out, "optimizer state", s.optimizer_state);
  add_line(out, "buffers", s.buffers);
  add_line(out, "weights in half precision", s.autocast_copies);
  add_line(out, s.on_gpu ? "other tensors" : "data set and the like", s.data);
  add_line(out, "beside the tensors", s.outside);
  add_line(out, "left for activations", s.budget - s.floor() - s.outside);
  if (s.floor() > s.budget)
    out += cat("\n    needed at any size        ", format_bytes(s.floor()), ": more than the budget");
  if (s.on_gpu) out += kCountedOnGpu;
  if (s.machine) {
    out += cat("\n  libraries' workspaces and code, outside the budget: ", format_bytes(*s.machine));
  }
  if (s.others > 0) out += cat("\n  used by others on this device: ", format_bytes(s.others));
  if (refusal) out += describe(*refusal);
  return out;
}

}  // namespace autotrain
