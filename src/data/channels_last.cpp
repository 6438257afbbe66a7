#include "data/channels_last.h"

#include <c10/core/MemoryFormat.h>

namespace autotrain {

torch::Tensor channels_last(const torch::Tensor& images) {
  if (!images.defined() || images.dim() != 4) return images;
  const torch::Tensor stored = images.contiguous(at::MemoryFormat::ChannelsLast);
  // With one channel both formats store the same, and LibTorch tells them apart by their strides alone.
  return stored.as_strided(stored.sizes(), c10::get_channels_last_strides_2d(stored.sizes()));
}

}  // namespace autotrain
