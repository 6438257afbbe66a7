#include <algorithm>
#include <stdexcept>
#include <string>

#include "data/image_gather.h"

namespace autotrain {
namespace {

constexpr int kThreads = 256;           // of a block
constexpr int64_t kMostBlocks = 65536;  // each goes on with the next pixels

// One pixel of the result a turn: neighbours read and write neighbouring memory.
__global__ void gather_kernel(const ImageGather g, const int64_t pixels) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < pixels; i += stride) {
    const int64_t x = i % g.width, y = i / g.width % g.height;
    const int64_t c = i / (g.width * g.height) % g.channels;
    const ImagePlace place = g.places[i / (g.width * g.height * g.channels)];
    const int64_t source_x = (place.mirrored ? g.width - 1 - x : x) + place.dx, source_y = y + place.dy;
    const bool inside = source_x >= 0 && source_x < g.width && source_y >= 0 && source_y < g.height;
    const Affine affine = g.normalisation[c];
    float value = affine.shift;
    if (inside) {
      const int64_t at = place.image * g.channels * g.height * g.width + c * g.channel_stride +
                         source_y * g.row_stride + source_x * g.column_stride;
      // The product is rounded before the sum, not fused, because the CPU rounds it too.
      value = __fadd_rn(__fmul_rn(g.images[at], affine.scale), affine.shift);
    }
    g.out[i] = value;
  }
}

}  // namespace

void gather_images_cuda(const ImageGather& gather, void* stream) {
  const int64_t pixels = gather.samples * gather.channels * gather.height * gather.width;
  if (pixels == 0) return;
  const auto blocks = static_cast<unsigned>(std::min((pixels + kThreads - 1) / kThreads, kMostBlocks));
  gather_kernel<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(gather, pixels);
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) throw std::runtime_error(std::string("CUDA error: ") + cudaGetErrorString(error));
}

}  // namespace autotrain
