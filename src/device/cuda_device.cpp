#include "device/cuda_device.h"

#include <ATen/Context.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/Exceptions.h>
#include <c10/core/AllocatorConfig.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/version.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "autotrain/error.h"
#include "base/text.h"
#include "device/cpu_device.h"
#include "device/cuda_host_copies.h"
#include "device/cuda_meter.h"

namespace autotrain {
namespace {

// Other processes, the display and the driver may grow a little while we run.
constexpr int64_t kReserveBytes = int64_t{256} << 20;

class CudaDevice final : public Device {
 public:
  CudaDevice(c10::DeviceIndex index, std::unique_ptr<CudaMeter> meter, ResolvedBudget budget)
      : Device(std::move(budget)), index_(index), meter_(std::move(meter)) {}

  c10::Device torch_device() const override { return {c10::DeviceType::CUDA, index_}; }
  std::string name() const override { return at::cuda::getDeviceProperties(index_)->name; }

  std::string bus_id() const override {
    std::array<char, 32> id{};
    C10_CUDA_CHECK(cudaDeviceGetPCIBusId(id.data(), static_cast<int>(id.size()), index_));
    return id.data();
  }

  std::string software() const override {
    int driver = 0, runtime = 0;
    C10_CUDA_CHECK(cudaDriverGetVersion(&driver));
    C10_CUDA_CHECK(cudaRuntimeGetVersion(&runtime));
    return cat("LibTorch ", TORCH_VERSION, ", CUDA runtime ", runtime, ", driver ", driver, ", cuDNN ",
               at::detail::getCUDAHooks().versionCuDNN());
  }

  // Tensor cores multiply bf16 from compute capability 8.0 on.
  bool has_native_bf16() const override { return at::cuda::getDeviceProperties(index_)->major >= 8; }
  bool has_tf32() const override { return has_native_bf16(); }

  void allow_tf32(bool allowed) override {
    at::globalContext().setAllowTF32CuBLAS(allowed);
    at::globalContext().setAllowTF32CuDNN(allowed);
  }

  void synchronize() const override {
    const c10::cuda::CUDAGuard guard(index_);
    c10::cuda::device_synchronize();
  }

  Batch upload(const Batch& batch) override {
    const auto compute = c10::cuda::getCurrentCUDAStream(index_);
    // The host runs ahead of the device, and what it uploads for later work takes memory from now on: it
    // waits until the last batch but two is done with.
    at::cuda::CUDAEvent& passed = passed_[uploads_++ % passed_.size()];
    if (passed.isCreated()) passed.synchronize();
    passed.record(compute);
    Batch there;
    {
      const c10::cuda::CUDAStreamGuard copying(copies_);
      there = batch.to(torch_device());
      copied_.record(copies_);
    }
    copied_.block(compute);
    // The allocator must not give the memory away before the work that reads it is done.
    for (const torch::Tensor& tensor : there.tensors())
      c10::cuda::CUDACachingAllocator::recordStream(tensor.storage().data_ptr(), compute);
    return there;
  }

  std::unique_ptr<HostCopies> copy_to_host(const std::vector<torch::Tensor>& tensors) override {
    const c10::cuda::CUDAGuard guard(index_);
    return staging_.copy(tensors);
  }
  int64_t kept_host_bytes() const override { return staging_.bytes(); }

  MemoryMeter& memory() override { return *meter_; }
  int64_t used_by_others_bytes() const override { return meter_->outside_at_start_bytes(); }

 private:
  const c10::DeviceIndex index_;
  const c10::cuda::CUDAStream copies_ = c10::cuda::getStreamFromPool(/*isHighPriority=*/false, index_);
  at::cuda::CUDAEvent copied_;
  std::array<at::cuda::CUDAEvent, 2> passed_;  // where the compute stream was at the last uploads
  size_t uploads_ = 0;
  HostStaging staging_;
  std::unique_ptr<CudaMeter> meter_;
};

}  // namespace

int64_t cuda_device_count() {
  return c10::cuda::device_count();
}

std::unique_ptr<Device> open_cuda_device(const DeviceOptions& options, int64_t index) {
  const int64_t count = cuda_device_count();
  if (index < 0 || index >= count) {
    throw Error(ExitCode::kBadRecipe, "execution.device",
                cat("cuda:", index, " does not exist; this machine shows ", count, " CUDA device(s)"),
                count > 0 ? cat("use cuda:0 to cuda:", count - 1)
                          : "set execution.device to cpu, or check the driver with nvidia-smi");
  }
  const auto device_index = static_cast<c10::DeviceIndex>(index);
  const bool deterministic = options.deterministic.value_or(false);
  // Segments that grow in place fragment least; must be set before the first allocation.
  c10::CachingAllocator::setAllocatorSettings("expandable_segments:True");
  c10::cuda::set_device(device_index);
  // cuBLAS repeats bit for bit only with a workspace of fixed size; it reads this when it is first used.
  if (deterministic) ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  // Benchmarking tries algorithms with large workspaces: memory would peak at random.
  at::globalContext().setBenchmarkCuDNN(false);
  at::globalContext().setDeterministicCuDNN(deterministic);
  at::empty({1}, at::TensorOptions().device(c10::Device(c10::DeviceType::CUDA, device_index)));
  auto meter = std::make_unique<CudaMeter>(device_index);
  if (options.settled) return std::make_unique<CudaDevice>(device_index, std::move(meter), *options.settled);
  const int64_t available = meter->free_bytes() - kReserveBytes;  // no other rank computes on it
  if (available <= 0) {
    throw Error(ExitCode::kDoesNotFit, cat("cuda:", index), "has no free memory",
                "end the other processes that nvidia-smi shows on it");
  }
  auto budget = resolve_budget(options.budget, available, cat("the free memory of cuda:", index));
  return std::make_unique<CudaDevice>(device_index, std::move(meter), std::move(budget));
}

}  // namespace autotrain
