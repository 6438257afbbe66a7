#include "plan/peak_trace.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "autotrain/error.h"
#include "base/text.h"
#include "plan/probe.h"
#include "step/operator_values.h"

namespace autotrain {
namespace {

using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;

// Memory that an operation made, and who takes it. The object behind a storage stays where it is, empty, for
// as long as this refers to it, so that no other storage has its address.
struct Made {
  WeakStorage storage;
  PeakTensor tensor;
  size_t last_use = 0;  // number of an operation; 0: none
};

// Follows the operations of an update in whatever threads they run; in those of a backward pass on a GPU,
// too.
class PeakObserver {
 public:
  explicit PeakObserver(const torch::nn::Module& module) {
    for (const auto& parameter : module.named_parameters()) {
      const torch::Tensor& tensor = parameter.value();
      owners_.emplace(tensor.storage().unsafeGetStorageImpl(), owner_of(parameter.key()));
      before_.insert(tensor.storage().unsafeGetStorageImpl());
      if (tensor.grad().defined()) before_.insert(tensor.grad().storage().unsafeGetStorageImpl());
    }
  }

  void start(const at::RecordFunction& function) {
    const std::lock_guard lock(mutex_);
    if (is_engine(function) || depth_++ > 0) return;  // operations call operations; the outermost are told
    std::string module;
    places_.push_back({function.name(), ""});
    for_each_tensor(inputs_of(function), [&](const torch::Tensor& tensor) {
      const void* const storage = tensor.storage().unsafeGetStorageImpl();
      if (const auto owner = owners_.find(storage); owner != owners_.end()) module = module_ = owner->second;
      const auto known = made_.find(storage);
      if (known == made_.end()) return;
      known->second.last_use = places_.size();
      // A backward pass goes through the modules the other way round: by what their forward pass made.
      if (module.empty() && known->second.tensor.made_in == MemoryPhase::kForward &&
          PhaseScope::current() == MemoryPhase::kBackward)
        module = known->second.tensor.made_by.module;
    });
    places_.back().module = module.empty() ? module_ : module;
  }

  void end(const at::RecordFunction& function) {
    const std::lock_guard lock(mutex_);
    if (is_engine(function)) return;
    for_each_tensor(outputs_of(function), [&](const torch::Tensor& tensor) { note(tensor); });
    if (--depth_ > 0) return;
    forget_freed();
    if (live_bytes_ <= trace_.made_bytes) return;
    trace_.made_bytes = live_bytes_;
    trace_.operation = std::ssize(places_);
    trace_.phase = PhaseScope::current();
    at_peak_.clear();
    for (const auto& [storage, made] : made_) at_peak_.push_back(storage);
    dead_.clear();  // of earlier peaks
  }

  PeakTrace take() && {
    for (const void* const storage : at_peak_) {
      const auto live = made_.find(storage);
      const Made& made = live != made_.end() ? live->second : dead_.at(storage);
      PeakTensor& tensor = trace_.tensors.emplace_back(made.tensor);
      if (made.last_use > static_cast<size_t>(trace_.operation)) tensor.kept_for = places_[made.last_use - 1];
    }
    std::ranges::stable_sort(trace_.tensors, std::greater(), &PeakTensor::bytes);
    trace_.operations = std::ssize(places_);
    if (trace_.operation > 0) trace_.at = places_[static_cast<size_t>(trace_.operation - 1)];
    return std::move(trace_);
  }

 private:
  // What calls the operations of a backward pass is none.
  static bool is_engine(const at::RecordFunction& function) {
    return std::string_view(function.name()).starts_with("autograd::engine::");
  }

  template <class Use>
  static void use_tensor(const torch::Tensor& tensor, const Use& use) {
    if (tensor.defined() && tensor.has_storage()) use(tensor);
  }

  template <class Values, class Use>
  static void for_each_tensor(const Values& values, const Use& use) {
    for (const c10::IValue& value : values) {
      if (value.isTensor()) use_tensor(value.toTensor(), use);
      if (value.isTensorList()) {
        for (const torch::Tensor& tensor : value.toTensorVector()) use_tensor(tensor, use);
      }
    }
  }

  void note(const torch::Tensor& tensor) {
    c10::StorageImpl* const storage = tensor.storage().unsafeGetStorageImpl();
    const auto bytes = static_cast<int64_t>(storage->nbytes());
    if (bytes == 0 || before_.contains(storage) || made_.contains(storage)) return;
    made_.emplace(storage, Made{WeakStorage(tensor.storage().getWeakStorageImpl()),
                                {.bytes = bytes,
                                 .shape = tensor.sizes().vec(),
                                 .type = c10::toString(tensor.scalar_type()),
                                 .made_by = places_.back(),
                                 .made_in = PhaseScope::current()}});
    live_bytes_ += bytes;
  }

  void forget_freed() {
    std::erase_if(made_, [&](auto& entry) {
      if (!entry.second.storage.expired()) return false;
      live_bytes_ -= entry.second.tensor.bytes;
      dead_.insert_or_assign(entry.first, std::move(entry.second));
      return true;
    });
  }

  std::mutex mutex_;
  std::unordered_map<const void*, std::string> owners_;  // of parameters' storages
  std::unordered_set<const void*> before_;               // storages that were there
  std::vector<OperationPlace> places_;                   // of all operations so far
  std::string module_;
  int64_t depth_ = 0;
  int64_t live_bytes_ = 0;
  std::unordered_map<const void*, Made> made_, dead_;  // dead: freed since the highest peak so far
  std::vector<const void*> at_peak_;
  PeakTrace trace_;
};

// Has the observer told of operations until the scope ends.
class PeakScope {
 public:
  explicit PeakScope(PeakObserver& observer) {
    observer_ = &observer;
    handle_ = at::addThreadLocalCallback(
        at::RecordFunctionCallback(
            [](const at::RecordFunction& function) -> std::unique_ptr<at::ObserverContext> {
              observer_->start(function);
              return nullptr;
            },
            [](const at::RecordFunction& function, at::ObserverContext*) { observer_->end(function); })
            .needsInputs(true)
            .needsOutputs(true)
            .scopes({at::RecordScope::FUNCTION}));
  }
  ~PeakScope() { at::removeCallback(handle_); }
  PeakScope(const PeakScope&) = delete;
  PeakScope& operator=(const PeakScope&) = delete;

 private:
  // A backward pass on a GPU has a thread of its own, which inherits the callbacks.
  static inline PeakObserver* observer_ = nullptr;
  at::CallbackHandle handle_{};
};

}  // namespace

PeakTrace trace_peak(Workbench& bench, int64_t micro_batch, int64_t window_samples) {
  constexpr double kAll = 1;  // of the budget: what the plan had run is not judged again
  Probe probe(bench, kAll);
  MemoryMeter& memory = bench.device->memory();
  const int64_t held = memory.allocated_bytes();
  PeakObserver observer(bench.task->module());
  ProbeRecord record;
  {
    const PeakScope scope(observer);
    record = probe.run({.micro_batch = micro_batch, .window_samples = window_samples},
                       [](const ProbeRecord&) { return false; });
  }
  if (record.outcome == ProbeOutcome::kRefused || record.outcome == ProbeOutcome::kLibrary)
    throw Error(ExitCode::kDoesNotFit, "plan --peak",
                cat("an update of ", micro_batch, " samples ran out of memory"),
                "raise execution.memory.budget, or set execution.micro_batch");
  PeakTrace trace = std::move(observer).take();
  trace.held_before_bytes = held;
  trace.measured_bytes = record.allocated_bytes;
  return trace;
}

}  // namespace autotrain
