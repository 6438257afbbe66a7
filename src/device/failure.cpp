#include "device/failure.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <new>
#include <string_view>
#include <system_error>

#include "autotrain/error.h"
#include "base/text.h"

namespace autotrain {
namespace {

template <size_t n>
bool contains_any(std::string_view text, const std::array<std::string_view, n>& parts) {
  for (const std::string_view part : parts) {
    if (text.find(part) != std::string_view::npos) return true;
  }
  return false;
}

bool says(const std::exception& error, std::string_view part) {
  return std::string_view(error.what()).find(part) != std::string_view::npos;
}

// ------------------------------------------------------------------ memory

// Text is matched only where a library gives no type.
constexpr std::array<std::string_view, 12> kMemoryTexts = {
    "CUBLAS_STATUS_ALLOC_FAILED",                          // cuBLAS
    "CUDNN_STATUS_ALLOC_FAILED",                           // cuDNN 8
    "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED",  // cuDNN 9
    "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
    "CUSOLVER_STATUS_ALLOC_FAILED",                       // cuSOLVER
    "CUFFT_ALLOC_FAILED",                                 // cuFFT
    "resource allocation failed when calling `cusparse",  // cuSPARSE
    "CUDA out of memory. Tried to allocate",              // the caching allocator, where its type was lost
    "CUDA error: out of memory",                          // the runtime, outside the caching allocator
    "CUDA driver error: out of memory",                   // segments that grow in place
    "Cuda failure 2 'out of memory'",                     // NCCL
    "DefaultCPUAllocator: can't allocate memory",         // LibTorch's own CPU allocator
};

constexpr std::array<std::string_view, 8> kLibraryTexts = {
    "could not create a primitive",  // oneDNN, under memory pressure
    "could not create a memory",
    "could not execute a primitive",
    "could not initialize a memory",
    "unable to find an engine to execute this computation",  // cuDNN, when no workspace can be had
    "CUBLAS_STATUS_NOT_INITIALIZED",                         // a handle that found no memory
    "CUDNN_STATUS_NOT_INITIALIZED",
    "when calling `cusolverDnCreate(",
};

constexpr std::array<std::string_view, 3> kIndexTexts = {
    "invalid configuration argument",  // a CUDA launch beyond the grid's limits
    "canUse32BitIndexMath",            // kernels that index with 32 bits
    "numel needs to be smaller than int32_t max",
};

constexpr int32_t kCudaOutOfMemory = 2;

// ------------------------------------------------------------------ the device

// By CUDA's numbers, so that builds without CUDA know them too.
constexpr int32_t kCudaDevicesUnavailable = 46;
constexpr int32_t kCudaNoKernelImage = 209;
constexpr int32_t kCudaAssert = 710;
constexpr std::array<int32_t, 17> kLostCodes = {
    214,  // ECC error that could not be corrected
    220,  // NVLink error that could not be corrected
    226,  // an error that was contained
    700,  // illegal address
    702,  // launch timed out
    709,  // context destroyed
    kCudaAssert,
    714,  // hardware stack error
    715,  // illegal instruction
    716,  // misaligned address
    717,  // invalid address space
    718,  // invalid program counter
    719,  // unspecified launch failure
    721,  // tensor memory leaked
    802,  // system not ready
    803,  // driver and its libraries do not match
    999,  // unknown
};

// Of the texts of these codes those that come without a code: through cuBLAS, the driver's interface or NCCL.
constexpr std::array<std::string_view, 5> kSources = {"CUDA error", "CUDA driver error", "Cuda failure",
                                                      "NCCL error", "NVML"};
constexpr std::string_view kAssertText = "device-side assert";
constexpr std::array<std::string_view, 14> kLostTexts = {
    kAssertText,
    "unspecified launch failure",
    "illegal memory access",
    "an illegal instruction",
    "misaligned address",
    "hardware stack error",
    "invalid program counter",
    "not supported on global/shared address space",
    "launch timed out",
    "uncorrectable ECC",
    "uncorrectable NVLink",
    "GPU is lost",
    "context is destroyed",
    "unknown error",
};

constexpr std::string_view kNotDeterministic = " does not have a deterministic implementation";
constexpr const char* kCublasItself = "cuBLAS";
constexpr std::string_view kCublasNotDeterministic = "not deterministic because it uses CuBLAS";

// An error of ours has said already what it is, and a failure of another rank is none of this device.
bool is_settled(const std::exception& error) {
  return dynamic_cast<const Error*>(&error) != nullptr ||
         dynamic_cast<const FailureElsewhere*>(&error) != nullptr;
}

// CUDA's number of the error; 0 where it has none.
int32_t code_of(const std::exception& error) {
  const auto* const accelerator = dynamic_cast<const c10::AcceleratorError*>(&error);
  return accelerator != nullptr ? accelerator->get_error_code() : 0;
}

}  // namespace

Failure classify_failure(const std::exception& error) {
  if (const auto* const elsewhere = dynamic_cast<const FailureElsewhere*>(&error))
    return elsewhere->failure();
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr) return Failure::kOutOfMemory;
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return Failure::kOutOfMemory;
  if (code_of(error) == kCudaOutOfMemory) return Failure::kOutOfMemory;
  if (const auto* const system = dynamic_cast<const std::system_error*>(&error)) {
    // A thread for which there is no room; pthread_create says EAGAIN.
    if (system->code() == std::errc::resource_unavailable_try_again ||
        system->code() == std::errc::not_enough_memory)
      return Failure::kOutOfMemory;
  }
  if (is_device_lost(error)) return Failure::kOther;
  const std::string_view text = error.what();
  if (contains_any(text, kMemoryTexts)) return Failure::kOutOfMemory;
  if (contains_any(text, kLibraryTexts)) return Failure::kLibraryMemory;
  if (contains_any(text, kIndexTexts)) return Failure::kIndexLimit;
  return Failure::kOther;
}

bool is_device_lost(const std::exception& error) {
  if (is_settled(error)) return false;
  if (const int32_t code = code_of(error)) return std::ranges::find(kLostCodes, code) != kLostCodes.end();
  const std::string_view text = error.what();
  return contains_any(text, kSources) && contains_any(text, kLostTexts);
}

bool is_device_assert(const std::exception& error) {
  if (!is_device_lost(error)) return false;
  return code_of(error) == kCudaAssert || says(error, kAssertText);
}

bool lacks_kernels(const std::exception& error) {
  if (is_settled(error)) return false;
  return code_of(error) == kCudaNoKernelImage || says(error, "no kernel image is available");
}

bool is_device_taken(const std::exception& error) {
  if (is_settled(error)) return false;
  if (const auto code = code_of(error)) return code == kCudaDevicesUnavailable;
  return says(error, "CUDA-capable device") && says(error, "busy or unavailable");
}

// The text names it first, behind what those say through whom it came: "RuntimeError: put_ does not have …".
std::string nondeterministic_operator(const std::exception& error) {
  if (is_settled(error)) return "";
  if (says(error, kCublasNotDeterministic)) return kCublasItself;
  const std::string_view text = error.what();
  std::string_view name = text.substr(0, std::min(text.find(kNotDeterministic), text.size()));
  if (name.size() == text.size()) return "";
  for (const std::string_view before : {"\n", ": "}) {
    const size_t at = name.rfind(before);
    if (at != std::string_view::npos) name.remove_prefix(at + before.size());
  }
  return std::string(trim(name));
}

bool is_of_device(const std::exception& error) {
  return is_device_lost(error) || lacks_kernels(error) || !nondeterministic_operator(error).empty() ||
         says(error, "CUDA error");
}

std::string first_line(const std::exception& error) {
  const auto* const torch_error = dynamic_cast<const c10::Error*>(&error);
  return first_line(std::string_view(torch_error ? torch_error->what_without_backtrace() : error.what()));
}

}  // namespace autotrain
