#include "autotrain/error.h"

#include "base/heap_refused.h"

namespace autotrain {
namespace {

std::string one_block(const std::string& where, const std::string& what, const std::string& hint) {
  std::string text = where.empty() ? what : where + ": " + what;
  if (!hint.empty()) text += "\n  try: " + hint;
  return text;
}

}  // namespace

Error::Error(ExitCode code, std::string where, std::string what, std::string hint)
    : std::runtime_error(one_block(where, what, hint)),
      code_(code),
      where_(std::move(where)),
      problem_(std::move(what)),
      hint_(std::move(hint)) {}

Error heap_refused() {
  return Error(
      ExitCode::kDoesNotFit, "memory", "the system refused what the program needs beside its tensors",
      "raise execution.memory.budget where it is small, or the limit on this process (ulimit -d, ulimit -v, "
      "the cgroup), or end other programs");
}

void check_invariant(bool condition, const char* message) {
  if (!condition) throw std::logic_error(std::string("broken invariant: ") + message);
}

}  // namespace autotrain
