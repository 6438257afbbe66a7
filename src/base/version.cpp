#include "base/version.h"

namespace autotrain {

const char* version() {
  return AUTOTRAIN_VERSION;
}

}  // namespace autotrain
