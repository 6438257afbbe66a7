#include "device/cuda_recorder.h"

#include <ATen/core/CachingHostAllocator.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>
#include <cuda_runtime_api.h>

#include "base/text.h"
#include "device/failure.h"

namespace autotrain {
namespace {

// LibTorch's graph, which can also be given up in the middle of capturing.
class Graph final : public at::cuda::CUDAGraph, public RecordedWork {
 public:
  ~Graph() override = default;
  void replay() override { CUDAGraph::replay(); }

  // Ends capturing after an exception, and gives back what LibTorch set aside for it: it would go on taking
  // the stream's allocations from the graph's memory, and random numbers for captured ones.
  void give_up() noexcept {
    cudaGraph_t broken = nullptr;
    cudaStreamEndCapture(capture_stream_, &broken);
    if (broken != nullptr) cudaGraphDestroy(broken);
    cudaGetLastError();  // that of the broken capture, which the next call would find
    for (const auto& [state, increment] : captured_generator_states_) state->capturing_ = false;
    try {
      c10::cuda::CUDACachingAllocator::endAllocateToPool(capture_dev_, mempool_id_);
      at::getHostAllocator(at::kCUDA)->end_allocate_to_pool(mempool_id_);
      c10::cuda::CUDACachingAllocator::releasePool(capture_dev_, mempool_id_);
      at::getHostAllocator(at::kCUDA)->release_pool(mempool_id_);
    } catch (const std::exception&) {
      // Capturing had ended by itself, and given them back.
    }
  }
};

// What an exception in the middle of capturing means: memory that is short and a device that is lost stay
// what they are.
[[noreturn]] void fail_recording(const std::exception& error) {
  if (classify_failure(error) == Failure::kOutOfMemory) throw;
  if (is_device_lost(error)) throw;
  const bool by_the_runtime = dynamic_cast<const c10::AcceleratorError*>(&error) != nullptr;
  throw CannotRecord(
      by_the_runtime ? cat("it waits for the device or uses a stream of its own (", first_line(error), ")")
                     : first_line(error));
}

class CudaRecorder final : public WorkRecorder {
 public:
  explicit CudaRecorder(c10::DeviceIndex index) : index_(index) {}

  std::unique_ptr<RecordedWork> record(const std::function<void()>& work) override {
    const c10::cuda::CUDAGuard guard(index_);  // LibTorch captures on the current device
    if (c10::cuda::getCurrentCUDAStream(index_) == c10::cuda::getDefaultCUDAStream(index_))
      throw CannotRecord("the calling thread computes on the default stream");
    // What the same work left in the cache when it was done before is of no use to what is recorded.
    c10::cuda::CUDACachingAllocator::emptyCache();
    auto graph = std::make_unique<Graph>();
    try {
      // Threads that load data go on pinning memory, which a stricter mode would forbid them.
      graph->capture_begin(pool_, cudaStreamCaptureModeThreadLocal);
      work();
      graph->capture_end();
    } catch (const std::exception& error) {
      graph->give_up();
      fail_recording(error);
    }
    return graph;
  }

 private:
  const c10::DeviceIndex index_;
  const c10::MempoolId_t pool_ = at::cuda::graph_pool_handle();
};

}  // namespace

std::unique_ptr<WorkRecorder> make_cuda_recorder(c10::DeviceIndex index) {
  return std::make_unique<CudaRecorder>(index);
}

}  // namespace autotrain
