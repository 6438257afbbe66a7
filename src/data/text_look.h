#pragma once

#include "base/mapped_file.h"
#include "data/look.h"

namespace autotrain {

/// What a file of text turns out to be: a mark of its encoding, an encoding that is not UTF-8, no text at
/// all; looked at whole, each byte that is no part of a character. All of it can be learned from as bytes.
void look_at_text_file(const MappedFile& file, LookDepth depth, DataLook& look);

}  // namespace autotrain
