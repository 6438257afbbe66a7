#pragma once

#include "recipe/keys.h"

namespace autotrain {

/// The tables of all rooms, as recipes choose from them.
const Catalog& catalog();

/// Whether anybody asked for it. What is added to a table afterwards would be missing.
bool catalog_is_made();

/// Makes it anew when it is asked for next. Precondition: nobody holds on to it.
void forget_catalog();

}  // namespace autotrain
