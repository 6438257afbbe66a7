#pragma once

#include <torch/types.h>

#include <filesystem>
#include <vector>

namespace autotrain {

/// Reads an IDX file of unsigned bytes (the format of MNIST: a magic number, one big-endian 32-bit
/// count a dimension, then the bytes), gzipped or not.
/// @param dimensions  how many are expected: 3 for images, 1 for labels.
/// @return uint8 tensor of the file's shape.
/// @throws Error(kMissingFile) when there is no such file; Error(kBadData) with the offset and what was
/// expected there for anything that does not hold together. Nothing is allocated on a header's word
/// alone: the file must be able to hold what the header promises.
torch::Tensor read_idx(const std::filesystem::path& path, size_t dimensions);

}  // namespace autotrain
