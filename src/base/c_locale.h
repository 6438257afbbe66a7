#pragma once

#include <locale.h>

namespace autotrain {

/// Until the scope ends, the C library has the locale "C" in the calling thread, whatever the program that
/// embeds this one has set with setlocale.
class CLocaleScope {
 public:
  CLocaleScope();
  ~CLocaleScope();
  CLocaleScope(const CLocaleScope&) = delete;
  CLocaleScope& operator=(const CLocaleScope&) = delete;

 private:
  locale_t before_;
};

}  // namespace autotrain
