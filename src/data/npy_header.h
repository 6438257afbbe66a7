#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace autotrain {

/// What the header of a `.npy` file says.
struct NpyHeader {
  std::string descr;  ///< "<f4"
  bool fortran_order = false;
  std::vector<int64_t> shape;  ///< each ≥ 0
  int64_t data_offset = 0;     ///< where the elements start
};

/// @param path of messages only.
/// @param file all of it.
/// @throws Error(kBadData) with the offset of the first byte that is not as NumPy writes it.
NpyHeader parse_npy_header(const std::filesystem::path& path, std::span<const uint8_t> file);

}  // namespace autotrain
