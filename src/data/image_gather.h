#pragma once

#include <cstdint>

#include "data/affine.h"

namespace autotrain {

/// Which image goes to a place of a batch, and how: shifted by (dy, dx), pixels from outside black, then
/// mirrored or not.
struct ImagePlace {
  int64_t image = 0;
  int32_t dy = 0;
  int32_t dx = 0;
  bool mirrored = false;
};

/// A batch gathered from images held as bytes: cropped, mirrored and normalised in one pass. All pointers are
/// to memory of the device that gathers.
struct ImageGather {
  const uint8_t* images;        ///< [N, channels, height, width], as the strides say
  const ImagePlace* places;     ///< [samples]
  const Affine* normalisation;  ///< [channels]
  float* out;                   ///< [samples, channels, height, width]
  int64_t samples, channels, height, width;
  int64_t channel_stride, row_stride, column_stride;  ///< from one to the next in `images`, in bytes
};

/// On the CPU, in the calling thread.
void gather_images(const ImageGather& gather);

/// On a GPU: queued on `stream`, a cudaStream_t of the current device. The same bits as on the CPU.
/// @throws std::runtime_error with CUDA's own words.
void gather_images_cuda(const ImageGather& gather, void* stream);

}  // namespace autotrain
