#include "device/failure.h"

#include <c10/util/Exception.h>

#include <array>
#include <new>
#include <string_view>
#include <system_error>

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

// Text is matched only where a library gives no type.
constexpr std::array<std::string_view, 6> kMemoryTexts = {
    "CUBLAS_STATUS_ALLOC_FAILED",                  // cuBLAS
    "CUDNN_STATUS_ALLOC_FAILED",                   // cuDNN
    "CUSOLVER_STATUS_ALLOC_FAILED",                // cuSOLVER
    "CUFFT_ALLOC_FAILED",                          // cuFFT
    "CUDA error: out of memory",                   // the runtime, outside the caching allocator
    "DefaultCPUAllocator: can't allocate memory",  // LibTorch's own CPU allocator
};

constexpr std::array<std::string_view, 7> kLibraryTexts = {
    "could not create a primitive",  // oneDNN, under memory pressure
    "could not create a memory",
    "could not execute a primitive",
    "could not initialize a memory",
    "unable to find an engine to execute this computation",  // cuDNN, when no workspace can be had
    "CUBLAS_STATUS_NOT_INITIALIZED",                         // a handle that found no memory
    "CUDNN_STATUS_NOT_INITIALIZED",
};

constexpr std::array<std::string_view, 3> kIndexTexts = {
    "invalid configuration argument",  // a CUDA launch beyond the grid's limits
    "canUse32BitIndexMath",            // kernels that index with 32 bits
    "numel needs to be smaller than int32_t max",
};

}  // namespace

Failure classify_failure(const std::exception& error) {
  if (const auto* const elsewhere = dynamic_cast<const FailureElsewhere*>(&error))
    return elsewhere->failure();
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr) return Failure::kOutOfMemory;
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return Failure::kOutOfMemory;
  if (const auto* const system = dynamic_cast<const std::system_error*>(&error)) {
    // A thread for which there is no room; pthread_create says EAGAIN.
    if (system->code() == std::errc::resource_unavailable_try_again ||
        system->code() == std::errc::not_enough_memory)
      return Failure::kOutOfMemory;
  }
  const std::string_view text = error.what();
  if (contains_any(text, kMemoryTexts)) return Failure::kOutOfMemory;
  if (contains_any(text, kLibraryTexts)) return Failure::kLibraryMemory;
  if (contains_any(text, kIndexTexts)) return Failure::kIndexLimit;
  return Failure::kOther;
}

std::string first_line(const std::exception& error) {
  const auto* const torch_error = dynamic_cast<const c10::Error*>(&error);
  return first_line(std::string_view(torch_error ? torch_error->what_without_backtrace() : error.what()));
}

}  // namespace autotrain
