#include "python/carrying_device.h"

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/text.h"
#include "base/units.h"
#include "device/cpu_device.h"

namespace autotrain {
namespace {

// The inner meter, and what is carried beside it.
class CarryingMeter final : public MemoryMeter {
 public:
  CarryingMeter(MemoryMeter& inner, int64_t carried_bytes) : inner_(inner), carried_bytes_(carried_bytes) {}

  int64_t allocated_bytes() const override { return inner_.allocated_bytes() + carried_bytes_; }
  int64_t reserved_bytes() const override { return inner_.reserved_bytes() + carried_bytes_; }
  int64_t sample_outside_bytes() override { return inner_.sample_outside_bytes(); }
  MemoryPeak peak() const override {
    MemoryPeak peak = inner_.peak();
    peak.allocated_bytes += carried_bytes_;
    peak.reserved_bytes += carried_bytes_;
    return peak;
  }
  void reset_peak() override { inner_.reset_peak(); }
  void set_limit(int64_t bytes) override { inner_.set_limit(std::max<int64_t>(0, bytes - carried_bytes_)); }
  void remove_limit() override { inner_.remove_limit(); }
  void empty_cache() override { inner_.empty_cache(); }
  std::optional<Refusal> last_refusal() const override {
    std::optional<Refusal> refusal = inner_.last_refusal();
    if (!refusal) return std::nullopt;
    refusal->allocated_bytes += carried_bytes_;
    refusal->reserved_bytes += carried_bytes_;
    if (refusal->limit_bytes >= 0) refusal->limit_bytes += carried_bytes_;
    return refusal;
  }

 private:
  MemoryMeter& inner_;
  const int64_t carried_bytes_;
};

// The inner device was opened with all that can be had.
ResolvedBudget budget_of(const Device& inner, const Budget& asked, int64_t carried_bytes) {
  constexpr std::string_view kAll = "all of ";
  std::string_view bound = inner.budget_source();
  if (bound.starts_with(kAll)) bound.remove_prefix(kAll.size());
  const ResolvedBudget budget =
      resolve_budget(asked, inner.budget_bytes() + carried_bytes, std::string(bound));
  if (budget.bytes > carried_bytes) return budget;
  throw Error(ExitCode::kDoesNotFit, "budget",
              cat("weights, buffers and the optimizer's state take ", format_bytes(carried_bytes),
                  ", all of the budget of ", format_bytes(budget.bytes), " (", budget.source, ")"),
              "raise the budget, or use a smaller model or an optimizer with less state");
}

}  // namespace

CarryingDevice::CarryingDevice(std::unique_ptr<Device> inner, const Budget& asked, int64_t carried_bytes)
    : Device(budget_of(*inner, asked, carried_bytes)),
      inner_(std::move(inner)),
      carried_bytes_(carried_bytes),
      meter_(std::make_unique<CarryingMeter>(inner_->memory(), carried_bytes)) {
  meter_->set_limit(budget_bytes());
}

CarryingDevice::~CarryingDevice() {
  try {
    meter_->remove_limit();
  } catch (const std::exception& error) {  // of a device that failed: whoever comes next is told again
    log::warn("memory", first_line(error));
  }
}

}  // namespace autotrain
