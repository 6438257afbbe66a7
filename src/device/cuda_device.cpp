#include "device/cuda_device.h"

#include <ATen/Context.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/cuda/Exceptions.h>
#include <c10/core/AllocatorConfig.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/env.h>
#include <torch/version.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/text.h"
#include "base/units.h"
#include "device/cpu_device.h"
#include "device/cuda_host_copies.h"
#include "device/cuda_memory.h"
#include "device/cuda_meter.h"
#include "device/cuda_recorder.h"
#include "device/device_error.h"
#include "device/failure.h"
#include "device/tf32.h"
#include "device/warm_up.h"

namespace autotrain {
namespace {

// Other processes, the display and the driver may grow a little while we run.
constexpr int64_t kReserveBytes = int64_t{256} << 20;

// A stream in the place of the default one, on which nothing can be recorded: for the thread that opens a
// device until the last run there is over. All runs of the process share it, since libraries keep a workspace
// for every stream.
class ComputeStream {
 public:
  explicit ComputeStream(c10::DeviceIndex index) : shared_(shared_by(index)) {
    std::lock_guard lock(shared_.mutex);
    const c10::cuda::CUDAStream now = c10::cuda::getCurrentCUDAStream(index);
    if (shared_.users++ == 0)
      shared_.before = now == shared_.stream ? c10::cuda::getDefaultCUDAStream(index) : now;
    enter();
  }
  ~ComputeStream() {
    std::lock_guard lock(shared_.mutex);
    const c10::DeviceIndex index = shared_.stream.device_index();
    if (--shared_.users > 0 || c10::cuda::getCurrentCUDAStream(index) != shared_.stream) return;
    static_cast<void>(
        cudaStreamSynchronize(shared_.stream));  // what is left of it, the one before does not wait for
    c10::cuda::setCurrentCUDAStream(*shared_.before);
  }
  ComputeStream(const ComputeStream&) = delete;
  ComputeStream& operator=(const ComputeStream&) = delete;

  void enter() const {
    if (c10::cuda::getCurrentCUDAStream(shared_.stream.device_index()) == shared_.stream) return;
    c10::cuda::device_synchronize();  // streams do not wait for each other
    c10::cuda::setCurrentCUDAStream(shared_.stream);
  }

 private:
  struct Shared {
    c10::cuda::CUDAStream stream;
    std::mutex mutex = {};
    int users = 0;
    std::optional<c10::cuda::CUDAStream> before = {};  // of the thread that opened the device first
  };

  static Shared& shared_by(c10::DeviceIndex index) {
    static std::mutex mutex;
    static auto* const all = new std::map<c10::DeviceIndex, Shared>;  // streams outlive what ends the process
    std::lock_guard lock(mutex);
    return all->try_emplace(index, c10::cuda::getStreamFromPool(/*isHighPriority=*/false, index))
        .first->second;
  }

  Shared& shared_;
};

constexpr const char* kFreeTheGpu =
    "end other processes that nvidia-smi shows on it, wait for them, or use another device";

std::string bus_id_of(c10::DeviceIndex index) {
  std::array<char, 32> id{};
  C10_CUDA_CHECK(cudaDeviceGetPCIBusId(id.data(), static_cast<int>(id.size()), index));
  return id.data();
}

// Tensor cores multiply bf16 from compute capability 8.0 on.
bool multiplies_bf16(c10::DeviceIndex index) {
  return at::cuda::getDeviceProperties(index)->major >= 8;
}

// Puts the device's own generator back when the scope ends.
class CudaGeneratorScope {
 public:
  explicit CudaGeneratorScope(c10::DeviceIndex index)
      : generator_(at::cuda::detail::getDefaultCUDAGenerator(index)) {
    std::lock_guard lock(generator_.mutex());
    state_ = generator_.get_state();
  }
  ~CudaGeneratorScope() {
    std::lock_guard lock(generator_.mutex());
    generator_.set_state(state_);
  }
  CudaGeneratorScope(const CudaGeneratorScope&) = delete;
  CudaGeneratorScope& operator=(const CudaGeneratorScope&) = delete;

 private:
  at::Generator generator_;
  at::Tensor state_;
};

// Puts back when the scope ends what operators may be chosen and how they round. A warm-up is no run: an
// operator that does not repeat bit for bit is no reason to warn.
class KernelChoiceScope {
 public:
  KernelChoiceScope() {
    at::Context& context = at::globalContext();
    deterministic_ = context.deterministicAlgorithms();
    warn_only_ = context.deterministicAlgorithmsWarnOnly();
    context.setDeterministicAlgorithms(false, false);
  }
  ~KernelChoiceScope() {
    at::Context& context = at::globalContext();
    context.setDeterministicAlgorithms(deterministic_, warn_only_);
    tf32_.put_in_force();
  }
  KernelChoiceScope(const KernelChoiceScope&) = delete;
  KernelChoiceScope& operator=(const KernelChoiceScope&) = delete;

 private:
  const Tf32Settings tf32_ = Tf32Settings::now();
  bool deterministic_ = false, warn_only_ = false;
};

// LibTorch's own caching allocator alone counts what tensors have, refuses beyond a limit and keeps the
// memory of recorded work.
void check_allocator() {
  constexpr const char* kUncached = "PYTORCH_NO_CUDA_MEMORY_CACHING";
  const std::string name = c10::cuda::CUDACachingAllocator::name();
  if (c10::utils::check_env(kUncached) == true) {
    throw Error(ExitCode::kUsage, kUncached,
                "turns off the allocator that counts memory and holds it to a budget", "unset it");
  }
  if (name == "native") return;
  throw Error(ExitCode::kUsage, "PYTORCH_CUDA_ALLOC_CONF",
              cat("memory of the GPU comes from the allocator ", quote(name),
                  ", which can neither be counted nor held to a budget"),
              "leave backend:cudaMallocAsync out of PYTORCH_CUDA_ALLOC_CONF (or PYTORCH_ALLOC_CONF), and "
              "change no allocator in the program");
}

// Segments that grow in place fragment least. A driver may refuse them, as that of WSL 2 does
// (pytorch/pytorch#192330): then they are of fixed size. On a stream where nothing was allocated before, so
// that no cached block answers.
void allocate_first(c10::DeviceIndex index) {
  static bool grows = true;
  const auto allocate = [&] {
    c10::CachingAllocator::setAllocatorSettings(grows ? "expandable_segments:True"
                                                      : "expandable_segments:False");
    at::empty({1}, at::TensorOptions().device(c10::Device(c10::DeviceType::CUDA, index)));
  };
  try {
    allocate();
  } catch (const std::exception& error) {
    if (!grows || classify_failure(error) == Failure::kOutOfMemory) throw;
    grows = false;
    log::info("device", cat("the driver has no memory that grows in place (", first_line(error),
                            "): it fragments more"));
    allocate();
  }
}

// And makes the device the calling thread's until `guard` ends.
std::unique_ptr<ComputeStream> create_context(c10::DeviceIndex index, c10::cuda::OptionalCUDAGuard& guard) {
  try {
    guard.set_index(index);
    auto stream = std::make_unique<ComputeStream>(index);
    allocate_first(index);
    return stream;
  } catch (const std::exception& error) {
    throw_device_error(error);
    if (classify_failure(error) != Failure::kOutOfMemory) throw;
    throw Error(
        ExitCode::kDoesNotFit, "execution.device",
        cat("the GPU has no memory left, not even for this process's context (", first_line(error), ")"),
        kFreeTheGpu);
  }
}

// What the libraries cannot do here.
std::vector<std::string> compute_everything(c10::DeviceIndex index) {
  const CudaGeneratorScope generator_of_the_run(index);
  const KernelChoiceScope choices;
  GpuWarmUp how{.device = {c10::DeviceType::CUDA, index},
                .generator = at::cuda::detail::createCUDAGenerator(index),
                .products = {torch::kFloat32, torch::kFloat16}};
  how.generator.set_current_seed(0);
  if (multiplies_bf16(index)) how.products.push_back(torch::kBFloat16);
  allow_tf32_everywhere(false);
  std::vector<std::string> failed = warm_up_gpu(how);
  if (multiplies_bf16(index)) {
    allow_tf32_everywhere(true);
    how.products = {torch::kFloat32};
    for (const std::string& pass : warm_up_gpu(how)) failed.push_back(pass + " (tf32)");
  }
  c10::cuda::device_synchronize();
  return failed;
}

// Nothing but the libraries' own needs was allocated yet.
[[noreturn]] void fail_warm_up(const GpuMemory& gpu, int64_t free_before, const std::string& why) {
  const auto refusal = gpu.last_refusal();
  const int64_t taken = std::max<int64_t>(0, free_before - gpu.free_bytes());
  const int64_t needed = taken + (refusal ? refusal->what.requested_bytes : 0);
  throw Error(ExitCode::kDoesNotFit, "execution.device",
              cat("the GPU has ", format_bytes(free_before), " of ", format_bytes(gpu.total_bytes()),
                  " free, and code and workspaces of libraries alone need more than ", format_bytes(needed),
                  " (", why, "); ", format_bytes(gpu.total_bytes() - free_before),
                  " are held by other processes and by this one's context"),
              kFreeTheGpu);
}

// Puts what libraries take in any run before the meter's baseline: it is the machine's and in no budget.
// Once in a process: what it loads stays.
void warm_up(c10::DeviceIndex index, GpuMemory& gpu) {
  static std::set<c10::DeviceIndex> warm;
  if (warm.contains(index)) return;
  constexpr int64_t kPlentyBytes = int64_t{1} << 30;
  const int64_t free_before = gpu.free_bytes();
  std::vector<std::string> failed;
  try {
    failed = compute_everything(index);
  } catch (const std::exception& error) {
    if (classify_failure(error) != Failure::kOutOfMemory) throw;
    fail_warm_up(gpu, free_before, first_line(error));
  }
  gpu.empty_cache();
  warm.insert(index);
  if (failed.empty()) return;
  if (gpu.free_bytes() < kPlentyBytes) fail_warm_up(gpu, free_before, failed.front());
  log::debug("device", cat("the warm-up went without ", join(failed, "; ")));
}

class CudaDevice final : public Device {
 public:
  CudaDevice(c10::DeviceIndex index, std::unique_ptr<ComputeStream> stream, std::unique_ptr<CudaMeter> meter,
             ResolvedBudget budget)
      : Device(std::move(budget)), index_(index), stream_(std::move(stream)), meter_(std::move(meter)) {}

  c10::Device torch_device() const override { return {c10::DeviceType::CUDA, index_}; }
  std::string name() const override { return at::cuda::getDeviceProperties(index_)->name; }

  std::string bus_id() const override { return bus_id_of(index_); }

  std::string software() const override {
    int driver = 0, runtime = 0;
    C10_CUDA_CHECK(cudaDriverGetVersion(&driver));
    C10_CUDA_CHECK(cudaRuntimeGetVersion(&runtime));
    return cat("LibTorch ", TORCH_VERSION, ", CUDA runtime ", runtime, ", driver ", driver, ", cuDNN ",
               at::detail::getCUDAHooks().versionCuDNN());
  }

  bool has_native_bf16() const override { return multiplies_bf16(index_); }
  bool has_tf32() const override { return has_native_bf16(); }

  void allow_tf32(bool allowed) override { allow_tf32_everywhere(allowed); }

  void synchronize() const override {
    const c10::cuda::CUDAGuard guard(index_);
    c10::cuda::device_synchronize();
  }

  Batch upload(const Batch& batch) override {
    const auto compute = c10::cuda::getCurrentCUDAStream(index_);
    // The host runs ahead of the device, and what it uploads for later work takes memory from now on: it
    // waits until the last batch but one is done with. Then its memory serves for this one, which is copied
    // while the device works on the last.
    if (passed_.isCreated()) passed_.synchronize();
    passed_.record(compute);
    Batch there;
    {
      const c10::cuda::CUDAStreamGuard copying(copies_);
      there = batch.to(torch_device());
      copied_.record(copies_);
    }
    copied_.block(compute);
    wait_for_what_was_made_there(batch, compute);
    // The allocator must not give the memory away before the work that reads it is done.
    for (const torch::Tensor& tensor : there.tensors())
      c10::cuda::CUDACachingAllocator::recordStream(tensor.storage().data_ptr(), compute);
    return there;
  }

  std::unique_ptr<WorkRecorder> make_recorder() override { return make_cuda_recorder(index_); }

  void use_from_this_thread() override {
    c10::cuda::set_device(index_);
    stream_->enter();
  }

  int64_t batches_ahead() const override { return 1; }
  bool counts_main_memory() const override { return false; }

  std::unique_ptr<HostCopies> copy_to_host(const std::vector<torch::Tensor>& tensors) override {
    const c10::cuda::CUDAGuard guard(index_);
    return staging_.copy(tensors);
  }
  int64_t kept_host_bytes() const override { return staging_.bytes(); }

  MemoryMeter& memory() override { return *meter_; }
  int64_t used_by_others_bytes() const override { return meter_->others_bytes(); }
  std::optional<int64_t> own_at_start_bytes() const override { return meter_->own_at_start_bytes(); }
  int64_t obtainable_bytes() const override { return meter_->obtainable_bytes(); }

 private:
  // A data set of the user's own may make its batches on the GPU, in a loader thread, whose stream is the
  // default one.
  void wait_for_what_was_made_there(const Batch& batch, const c10::cuda::CUDAStream& compute) {
    const auto is_there = [](const torch::Tensor& tensor) { return tensor.is_cuda(); };
    if (!std::ranges::any_of(batch.tensors(), is_there)) return;
    made_.record(c10::cuda::getDefaultCUDAStream(index_));
    made_.block(compute);
  }

  const c10::DeviceIndex index_;
  const std::unique_ptr<ComputeStream> stream_;
  const c10::cuda::CUDAStream copies_ = c10::cuda::getStreamFromPool(/*isHighPriority=*/false, index_);
  at::cuda::CUDAEvent copied_, made_;
  at::cuda::CUDAEvent passed_;  // where the compute stream was at the last upload
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
  check_allocator();
  c10::cuda::OptionalCUDAGuard guard;
  std::unique_ptr<ComputeStream> stream = create_context(device_index, guard);
  auto gpu = cuda_memory(device_index, bus_id_of(device_index));
  warm_up(device_index, *gpu);  // makes the stream's workspaces
  auto meter = std::make_unique<CudaMeter>(std::move(gpu));
  if (options.settled)
    return std::make_unique<CudaDevice>(device_index, std::move(stream), std::move(meter), *options.settled);
  const int64_t available = meter->free_bytes() - kReserveBytes;  // no other rank computes on it
  if (available <= 0) {
    throw Error(ExitCode::kDoesNotFit, cat("cuda:", index),
                cat("has no free memory: others hold ", format_bytes(meter->others_bytes()), " of its ",
                    format_bytes(meter->total_bytes())),
                kFreeTheGpu);
  }
  auto budget = resolve_budget(options.budget.on_cuda(), available, cat("the free memory of cuda:", index));
  return std::make_unique<CudaDevice>(device_index, std::move(stream), std::move(meter), std::move(budget));
}

}  // namespace autotrain
