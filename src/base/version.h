#pragma once

namespace autotrain {

/// "0.1.0", as the build says.
const char* version();

}  // namespace autotrain
