#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace autotrain {

/// How many bytes a run may use on its device.
struct Budget {
  enum class Kind { kAuto, kBytes, kShare };
  Kind kind = Kind::kAuto;
  int64_t bytes = 0;  ///< kBytes: bytes above what the process used when the run started
  double share = 1;   ///< kShare: fraction of what `auto` would give, in (0, 1]

  /// From "auto", "2GiB", "512 MiB", "50%"; nothing when it is none of these.
  static std::optional<Budget> parse(std::string_view text);
  std::string text() const;
  bool operator==(const Budget&) const = default;
};

/// The budget of a run: one for whatever device it computes on, or one for each kind of device. A plain
/// Budget may be assigned to it, which then is that of all:
///
///     recipe.execution.memory.budget = *Budget::parse("1GiB");
struct DeviceBudgets {
  DeviceBudgets() = default;
  DeviceBudgets(const Budget& of_any_device) : any(of_any_device) {}

  Budget any = {};                 ///< of any device, unless `cpu` or `cuda` is set
  std::optional<Budget> cpu = {};  ///< where one of the two is set, the other device has `auto`
  std::optional<Budget> cuda = {};

  bool per_device() const { return cpu || cuda; }
  Budget on_cpu() const { return per_device() ? cpu.value_or(Budget{}) : any; }
  Budget on_cuda() const { return per_device() ? cuda.value_or(Budget{}) : any; }

  /// @param device as a plan has it: "cpu", "cuda:0".
  Budget on(std::string_view device) const { return device.starts_with("cuda") ? on_cuda() : on_cpu(); }
  bool operator==(const DeviceBudgets&) const = default;
};

/// How often, or after how much: counted on one clock of the run.
struct Interval {
  enum class Unit { kNever, kEpochs, kUpdates, kSamples, kMinutes };
  Unit unit = Unit::kNever;
  double count = 0;  ///< > 0 unless kNever

  /// From "1 epoch", "500 updates", "10000 samples", "10 minutes", "never".
  static std::optional<Interval> parse(std::string_view text);
  std::string text() const;
  bool operator==(const Interval&) const = default;
};

/// A part of a run whose length need not be known yet.
struct Span {
  enum class Unit { kFraction, kUpdates, kSamples };
  Unit unit = Unit::kUpdates;
  double count = 0;  ///< kFraction: in [0, 1]; otherwise ≥ 0

  /// From "5%", "200 updates", "100000 samples", "0".
  static std::optional<Span> parse(std::string_view text);
  std::string text() const;
  bool operator==(const Span&) const = default;
};

}  // namespace autotrain
