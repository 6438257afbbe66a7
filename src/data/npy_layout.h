#pragma once

#include "data/npy_array.h"

namespace autotrain {

/// Words of the key `channels`.
inline constexpr const char *kLayoutAuto = "auto", *kLayoutFirst = "first", *kLayoutLast = "last";

/// Whether an array of four dimensions is read as images [N, H, W, C]. With `auto` its shape says so: the
/// last dimension is 1 to 4, and the others can be no channels.
/// @throws Error(kBadData) where the shape can be read both ways, and `channels` says neither.
bool channels_are_last(const NpyArray& array, const std::string& channels);

}  // namespace autotrain
