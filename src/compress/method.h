#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace autotrain {

/// What makes weights smaller.
enum class Compression {
  kNone,
  kInt8,         ///< weights of eight bits; inputs of linear layers are rounded to eight as they come
  kInt8Weights,  ///< weights of eight bits, computed with in the run's precision
  kInt4Weights,  ///< of four
  kSparse,       ///< two of four inputs
  kChannels,     ///< fewer outputs of inner layers
  kHeads,        ///< fewer attention heads
};

struct CompressionMethod {
  Compression kind = Compression::kNone;
  int64_t group = 64;                 ///< of kInt4Weights: inputs that share a scale
  double share = 0;                   ///< of kChannels and kHeads: of the outputs or heads, those that go
  std::string name = "uncompressed";  ///< as it was asked for: "channels:0.5"

  /// "channels-0.5.safetensors"
  std::string file_name() const;
};

/// Reads "int8-weights,int4-weights:32,channels:0.5,2:4".
/// @throws Error(kUsage) naming the word that is no method, or whose number is none of its range.
std::vector<CompressionMethod> parse_methods(const std::string& words);

}  // namespace autotrain
