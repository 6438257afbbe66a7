#pragma once

#include "autotrain/registry.h"
#include "recipe/keys.h"

namespace autotrain {

/// What a recipe gives the keys of a part of the program's own.
OwnValues values_of(const Parameters& parameters, const OwnPart& part);

}  // namespace autotrain
