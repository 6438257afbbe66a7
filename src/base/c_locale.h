#pragma once

#include <locale.h>

namespace autotrain {

/// What the C library does in the calling thread knows no language until the scope ends, whatever the program
/// that embeds this one has set with setlocale.
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
