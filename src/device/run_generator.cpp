#include "device/run_generator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "autotrain/random.h"
#include "base/run_thread.h"

namespace autotrain {
namespace {

// LibTorch leaves this key to whoever wants to see every operator of a thread. It comes before all others.
constexpr c10::DispatchKey kKey = c10::DispatchKey::TESTING_ONLY_GenericMode;

at::Generator& own_generator() {
  thread_local at::Generator own;
  return own;
}

bool is_generator(const c10::Argument& argument) {
  const c10::TypePtr& type = argument.type();
  if (type->kind() == c10::TypeKind::GeneratorType) return true;
  const auto optional = type->cast<c10::OptionalType>();
  return optional && optional->getElementType()->kind() == c10::TypeKind::GeneratorType;
}

bool on_cpu(const c10::IValue& value) {
  if (value.isTensor()) return !value.toTensor().defined() || value.toTensor().is_cpu();
  return !value.isDevice() || value.toDevice().is_cpu();
}

// An operator that draws, called with the stack of its arguments: with the run's generator in the place of
// none and of the global one.
void draw(const c10::OperatorHandle& drawing, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const std::vector<c10::Argument>& arguments = drawing.schema().arguments();
  const auto values = torch::jit::last(*stack, arguments.size());
  if (works_for_run() && own_generator().defined() && std::ranges::all_of(values, on_cpu)) {
    for (size_t i = 0; i < arguments.size(); ++i) {
      c10::IValue& value = stack->at(stack->size() - arguments.size() + i);
      if (!is_generator(arguments[i])) continue;
      if (value.isNone() || value.toGenerator() == at::detail::getDefaultCPUGenerator())
        value = own_generator();
    }
  }
  const c10::DispatchKeySet below(c10::DispatchKeySet::FULL_AFTER, kKey);
  drawing.redispatchBoxed(keys & below, stack);
}

// Follows every operator that takes a generator, and lets all others pass.
class Watch {
 public:
  Watch() : everything_(torch::Library::IMPL, "_", kKey, __FILE__, __LINE__) {
    everything_.fallback(torch::CppFunction::makeFallthrough());
    c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
    for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
      const auto found = dispatcher.findSchema(name);
      if (!found || !std::ranges::any_of(found->schema().arguments(), is_generator)) continue;
      const std::string space(name.getNamespace().value_or("aten"));
      auto& library =
          libraries_.try_emplace(space, torch::Library::IMPL, space, kKey, __FILE__, __LINE__).first->second;
      const std::string full = name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
      library.impl(full.c_str(), torch::CppFunction::makeFromBoxedFunction<&draw>());
    }
  }

 private:
  torch::Library everything_;
  std::map<std::string, torch::Library> libraries_;  // by the namespace of their operators
};

c10::DispatchKeySet watched_key() {
  // To the end of the process: a thread may be drawing then.
  static std::atomic<const Watch*> watch = new Watch;
  (void)watch.load();
  return c10::DispatchKeySet(kKey);
}

}  // namespace

RunGeneratorScope::RunGeneratorScope(at::Generator own)
    : before_(std::exchange(own_generator(), std::move(own))), watched_(watched_key()) {}

RunGeneratorScope::~RunGeneratorScope() {
  own_generator() = before_;
}

at::Generator cpu_generator() {
  return works_for_run() && own_generator().defined() ? own_generator()
                                                      : at::detail::getDefaultCPUGenerator();
}

}  // namespace autotrain
