#pragma once

#include <ATen/record_function.h>

#include <memory>

namespace autotrain {

/// Observes this thread's operators until the scope ends: `observer.start(function)` before each, with its
/// inputs, `observer.end(function)` after it, with its outputs. One scope of an observer's type at a time.
template <class Observer>
class OperatorScope {
 public:
  explicit OperatorScope(Observer& observer) {
    current() = &observer;
    handle_ = at::addThreadLocalCallback(
        at::RecordFunctionCallback(
            [](const at::RecordFunction& function) -> std::unique_ptr<at::ObserverContext> {
              if (current() != nullptr) current()->start(function);
              return nullptr;
            },
            [](const at::RecordFunction& function, at::ObserverContext*) {
              if (current() != nullptr) current()->end(function);
            })
            .needsInputs(true)
            .needsOutputs(true)
            .scopes({at::RecordScope::FUNCTION}));
  }
  ~OperatorScope() {
    at::removeCallback(handle_);
    current() = nullptr;
  }
  OperatorScope(const OperatorScope&) = delete;
  OperatorScope& operator=(const OperatorScope&) = delete;

 private:
  static Observer*& current() {
    thread_local Observer* observer = nullptr;
    return observer;
  }

  at::CallbackHandle handle_;
};

}  // namespace autotrain
