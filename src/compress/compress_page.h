#pragma once

#include <string>

#include "compress/compress.h"

namespace autotrain {

/// The table, each figure over the bytes of the files, and samples a second over batches, as HTML.
std::string to_page(const CompressionResult& result);

}  // namespace autotrain
