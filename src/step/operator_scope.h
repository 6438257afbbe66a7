#pragma once

#include <ATen/record_function.h>

#include <memory>
#include <utility>

namespace autotrain {

/// Observes this thread's operators until the scope ends: `observer.start(function)` before each, with its
/// inputs; where it looks at outputs, `observer.end(function)` after it, with these. Of scopes inside each
/// other, with observers of one type, the inner one observes.
template <class Observer, bool looks_at_outputs = true>
class OperatorScope {
 public:
  explicit OperatorScope(Observer& observer) : outer_(std::exchange(current(), &observer)) {
    if (outer_ != nullptr) return;
    handle_ = at::addThreadLocalCallback(
        at::RecordFunctionCallback(
            [](const at::RecordFunction& function) -> std::unique_ptr<at::ObserverContext> {
              if (current() != nullptr) current()->start(function);
              return nullptr;
            },
            []([[maybe_unused]] const at::RecordFunction& function, at::ObserverContext*) {
              if constexpr (looks_at_outputs) {
                if (current() != nullptr) current()->end(function);
              }
            })
            .needsInputs(true)
            .needsOutputs(looks_at_outputs)
            .scopes({at::RecordScope::FUNCTION}));
  }
  ~OperatorScope() {
    if (outer_ == nullptr) at::removeCallback(handle_);
    current() = outer_;
  }
  OperatorScope(const OperatorScope&) = delete;
  OperatorScope& operator=(const OperatorScope&) = delete;

 private:
  static Observer*& current() {
    thread_local Observer* observer = nullptr;
    return observer;
  }

  Observer* const outer_;
  at::CallbackHandle handle_{};
};

}  // namespace autotrain
