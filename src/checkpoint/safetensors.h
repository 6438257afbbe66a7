#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "autotrain/named_tensor.h"

namespace autotrain {

/// The safetensors format: eight bytes of header length (little endian), a JSON header that gives each
/// tensor's dtype, shape and byte range, then the bytes. Reading never executes anything.
/// https://github.com/huggingface/safetensors

/// Whether the format, as it is written here, has this type of numbers.
bool can_be_saved(torch::ScalarType dtype);

/// The key of a header under which its metadata stand; no tensor can have this name.
inline constexpr const char* kMetadataName = "__metadata__";

/// Writes tensors of any device and layout; equal tensors under equal names give equal bytes. A tensor that
/// is there under several names (tied weights) is written once, under the first; the header's metadata maps
/// the other names to it, as Python's safetensors.torch.save_model does. Precondition: names are distinct.
/// @throws Error(kInputOutput).
void write_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors);

/// Reads the whole file into CPU tensors, in the order of their bytes.
/// Every length and offset is validated before anything is allocated for it.
/// @throws Error(kMissingFile, kBadData).
std::vector<NamedTensor> read_safetensors(const std::filesystem::path& path);

/// The texts that a file says of itself by name, from its header; of a file that is checked no further.
/// @throws Error(kMissingFile, kBadData).
std::map<std::string, std::string> read_safetensors_metadata(const std::filesystem::path& path);

/// Describes a tensor as the header of a file does.
struct TensorEntry {
  std::string name;
  torch::ScalarType dtype = torch::kFloat32;
  std::vector<int64_t> shape = {};
  std::string unread_type = {};  ///< in the place of `dtype`, one that is not read here: "F8_E4M3"; "": none
};

/// @throws Error(kBadData) where the tensor is of a type that is not read here.
void check_type_is_read(const std::filesystem::path& path, const TensorEntry& entry);

/// The tensors of a file, in the order of their bytes, of whatever type. @throws as read_safetensors.
std::vector<TensorEntry> list_safetensors(const std::filesystem::path& path);

/// Reads those tensors of a file for which `target` returns one of the same shape, which may be of another
/// type, and is filled. Allocates for at most one tensor at a time. @throws as read_safetensors.
void read_some_safetensors(const std::filesystem::path& path,
                           const std::function<torch::Tensor(const TensorEntry&)>& target);

/// Fills `live` from the file, which must hold exactly these names, shapes and types; of a tensor that is
/// there under several names, one name is enough. Allocates for at most one tensor at a time, and for none on
/// the CPU.
/// @param hint what to try when the tensors do not match.
/// @throws Error(kMissingFile, kBadData) naming the tensors that are missing, left over or of another shape.
void read_safetensors_into(const std::filesystem::path& path, const std::vector<NamedTensor>& live,
                           const std::string& hint);

}  // namespace autotrain
