#include "base/c_locale.h"

namespace autotrain {
namespace {

locale_t c_locale() {
  static const locale_t locale = ::newlocale(LC_ALL_MASK, "C", nullptr);
  return locale;
}

}  // namespace

CLocaleScope::CLocaleScope() : before_(::uselocale(c_locale())) {}

CLocaleScope::~CLocaleScope() {
  ::uselocale(before_);
}

}  // namespace autotrain
