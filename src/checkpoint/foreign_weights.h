#pragma once

#include <filesystem>

namespace autotrain {

/// Refuses a file of weights that is of another format than safetensors, by its first bytes or its ending:
/// pickles of PyTorch (which run code as they are read), and their index; GGUF, ONNX, Flax's msgpack, HDF5;
/// the pointer that Git LFS leaves in the place of a file. What is not there, or is none of these, is let
/// through.
/// @throws Error(kBadData) that says what it is and how it becomes safetensors; Error(kInputOutput).
void refuse_foreign_weights(const std::filesystem::path& path);

/// Whether a file is called as those are that the former refuses by their endings.
bool is_called_foreign(const std::filesystem::path& path);

}  // namespace autotrain
