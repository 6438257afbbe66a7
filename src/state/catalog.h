#pragma once

#include "recipe/keys.h"

namespace autotrain {

/// The tables of all rooms, as recipes choose from them.
const Catalog& catalog();

}  // namespace autotrain
