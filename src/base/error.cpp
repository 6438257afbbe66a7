#include "autotrain/error.h"

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

void check_invariant(bool condition, const char* message) {
  if (!condition) throw std::logic_error(std::string("broken invariant: ") + message);
}

}  // namespace autotrain
