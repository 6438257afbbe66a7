#include "device/cuda_host_copies.h"

#include <ATen/ops/from_blob.h>
#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include "base/units.h"

namespace autotrain {
namespace {

constexpr int64_t kAligned = 256;  // bytes

int64_t bytes_of(const torch::Tensor& tensor) {
  return round_up(static_cast<int64_t>(tensor.nbytes()), kAligned);
}

// Copies that are queued on a stream.
class CudaHostCopies final : public HostCopies {
 public:
  explicit CudaHostCopies(std::vector<torch::Tensor> tensors) : HostCopies(std::move(tensors)) {
    arrived_.record(c10::cuda::getCurrentCUDAStream());
  }

  // What nobody waited for would go on arriving in memory that others have by then.
  ~CudaHostCopies() override { static_cast<void>(cudaEventSynchronize(arrived_.event())); }

  void wait() override { arrived_.synchronize(); }

 private:
  // Who waits sleeps: there are loader threads that want the core.
  c10::cuda::CUDAEvent arrived_{cudaEventDisableTiming | cudaEventBlockingSync};
};

// A tensor in `memory`, which lives as long as it.
torch::Tensor place_for(const torch::Tensor& tensor, const std::shared_ptr<PinnedMemory>& memory,
                        int64_t offset) {
  const auto options = torch::TensorOptions().dtype(tensor.scalar_type());
  const auto hold = [memory](void*) {};
  char* const place = memory->data() + offset;
  return tensor.is_non_overlapping_and_dense()
             ? at::from_blob(place, tensor.sizes(), tensor.strides(), hold, options)
             : at::from_blob(place, tensor.sizes(), hold, options);
}

}  // namespace

std::shared_ptr<PinnedMemory> PinnedMemory::get(int64_t bytes) {
  void* data = nullptr;
  if (cudaHostAlloc(&data, static_cast<size_t>(bytes), cudaHostAllocDefault) == cudaSuccess)
    return std::shared_ptr<PinnedMemory>(new PinnedMemory(static_cast<char*>(data), bytes));
  static_cast<void>(cudaGetLastError());  // it would be taken for the next kernel's
  return nullptr;
}

PinnedMemory::~PinnedMemory() {
  static_cast<void>(cudaFreeHost(data_));
}

std::unique_ptr<HostCopies> HostStaging::copy(const std::vector<torch::Tensor>& tensors) {
  int64_t bytes = 0;
  for (const torch::Tensor& tensor : tensors) bytes += bytes_of(tensor);
  const bool in_use = memory_.use_count() > 1;
  if (in_use || this->bytes() < bytes) {
    memory_.reset();  // gone before there is another, where nobody reads it
    memory_ = PinnedMemory::get(bytes);
  }
  if (!memory_) return copy_to_plain_memory(tensors);
  const torch::NoGradGuard no_gradients;
  std::vector<torch::Tensor> copies;
  copies.reserve(tensors.size());
  int64_t offset = 0;
  for (const torch::Tensor& tensor : tensors) {
    copies.push_back(place_for(tensor, memory_, offset));
    copies.back().copy_(tensor.detach(), /*non_blocking=*/true);
    offset += bytes_of(tensor);
  }
  return std::make_unique<CudaHostCopies>(std::move(copies));
}

}  // namespace autotrain
