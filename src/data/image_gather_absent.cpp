// Stands in for image_gather.cu where LibTorch was built without CUDA.
#include "autotrain/error.h"
#include "data/image_gather.h"

namespace autotrain {

void gather_images_cuda(const ImageGather&, void*) {
  check_invariant(false, "a build without CUDA has no images on a GPU");
}

}  // namespace autotrain
