#include "device/failure.h"

#include <c10/util/Exception.h>

#include <new>

#include "support/support.h"

namespace autotrain {
namespace {

Failure of_text(const std::string& text) {
  return classify_failure(std::runtime_error(text));
}

TEST(Failure, MemoryIsRecognisedByType) {
  EXPECT_EQ(classify_failure(c10::OutOfMemoryError({__func__, __FILE__, 1}, "x")), Failure::kOutOfMemory);
  EXPECT_EQ(classify_failure(std::bad_alloc()), Failure::kOutOfMemory);
  EXPECT_EQ(classify_failure(std::system_error(EAGAIN, std::generic_category(), "starting a thread")),
            Failure::kOutOfMemory);
  EXPECT_EQ(classify_failure(std::system_error(ENOENT, std::generic_category(), "x")), Failure::kOther);
}

TEST(Failure, LibraryCodesThatMeanTheSameAreRecognised) {
  EXPECT_EQ(of_text("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"),
            Failure::kOutOfMemory);
  EXPECT_EQ(of_text("could not create a primitive"), Failure::kLibraryMemory);
  EXPECT_EQ(of_text("CUDA error: invalid configuration argument"), Failure::kIndexLimit);
}

// Those of LibTorch 2.11 that come without a type.
TEST(Failure, WhatTheLibrariesOfAGpuSayOfMemoryIsOutOfMemory) {
  for (const char* text :
       {"CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported",
        "CUDA driver error: out of memory", "CUDA out of memory. Tried to allocate 2.00 GiB.",
        "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED",
        "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
        "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
        "cusolver error: CUSOLVER_STATUS_ALLOC_FAILED, when calling `cusolverDnCreate(handle)`",
        "cuFFT error: CUFFT_ALLOC_FAILED",
        "CUDA error: resource allocation failed when calling `cusparseCreate(handle)`",
        "NCCL error in: x.cpp:1, unhandled cuda error, NCCL version 2.28\nLast error:\nCuda failure 2 'out "
        "of memory'"})
    EXPECT_EQ(of_text(text), Failure::kOutOfMemory) << text;
  EXPECT_EQ(
      of_text("cusolver error: CUSOLVER_STATUS_INTERNAL_ERROR, when calling `cusolverDnCreate(handle)`"),
      Failure::kLibraryMemory);
  EXPECT_EQ(classify_failure(c10::AcceleratorError({__func__, __FILE__, 1}, 2, "CUDA error: x")),
            Failure::kOutOfMemory);
  for (const char* text :
       {"cuDNN error: CUDNN_STATUS_EXECUTION_FAILED", "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR",
        "CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm(`"})
    EXPECT_EQ(of_text(text), Failure::kOther) << text;
}

TEST(Failure, ALostDeviceIsToldByItsCodeOrItsText) {
  const auto of_code = [](int32_t code) {
    return c10::AcceleratorError({__func__, __FILE__, 1}, code, "CUDA error: x");
  };
  for (const int32_t code : {214, 220, 700, 702, 710, 714, 715, 716, 719, 803, 999}) {
    EXPECT_TRUE(is_device_lost(of_code(code))) << code;
    EXPECT_EQ(classify_failure(of_code(code)), Failure::kOther) << code;
  }
  for (const int32_t code : {1, 2, 100, 209, 304, 701, 900})
    EXPECT_FALSE(is_device_lost(of_code(code))) << code;
  EXPECT_TRUE(is_device_assert(of_code(710)));
  EXPECT_FALSE(is_device_assert(of_code(719)));
  EXPECT_TRUE(lacks_kernels(of_code(209)));
  for (const char* text :
       {"CUDA error: unspecified launch failure", "CUDA error: uncorrectable ECC error encountered",
        "CUDA error: device-side assert triggered",
        "CUDA driver error: an illegal memory access was encountered",
        "NCCL error in: x.cpp:1, unhandled cuda error\nLast error:\nCuda failure 719 'unspecified launch "
        "failure'",
        "CUDA error: GPU is lost"})
    EXPECT_TRUE(is_device_lost(std::runtime_error(text))) << text;
  for (const char* text : {"CUDA error: out of memory", "unknown error", "the launch timed out of my rocket",
                           "CUDA error: invalid argument"})
    EXPECT_FALSE(is_device_lost(std::runtime_error(text))) << text;
  EXPECT_FALSE(
      is_device_lost(Error(ExitCode::kDeviceLost, "rank 1", "CUDA error: unspecified launch failure")))
      << "that of another rank is not this one's";
}

TEST(Failure, AnOperatorThatDoesNotRepeatIsNamed) {
  const auto name_in = [](const std::string& text) {
    return nondeterministic_operator(std::runtime_error(text));
  };
  const std::string rest =
      " does not have a deterministic implementation, but you set "
      "'torch.use_deterministic_algorithms(True)'.";
  EXPECT_EQ(name_in("put_" + rest), "put_");
  EXPECT_EQ(name_in("kthvalue CUDA" + rest + "\n  in operator 7 of the model file"), "kthvalue CUDA");
  EXPECT_EQ(
      name_in("The following operation failed in the TorchScript interpreter.\nTraceback:\nRuntimeError: "
              "cumsum_cuda_kernel" +
              rest),
      "cumsum_cuda_kernel");
  EXPECT_EQ(name_in("mat1 and mat2 shapes cannot be multiplied"), "");
  EXPECT_EQ(of_text("put_" + rest), Failure::kOther);
}

TEST(Failure, AnythingElseIsAnErrorAndNeverDoesNotFit) {
  EXPECT_EQ(of_text("mat1 and mat2 shapes cannot be multiplied"), Failure::kOther);
  EXPECT_EQ(of_text("my program ran out of memory of what to do"), Failure::kOther);
  EXPECT_EQ(of_text("CUDA error: device-side assert triggered"), Failure::kOther);
}

TEST(Failure, FirstLineLeavesTheStackOut) {
  try {
    TORCH_CHECK(false, "the reason\nmore");
  } catch (const std::exception& error) {
    EXPECT_EQ(first_line(error), "the reason");
  }
}

}  // namespace
}  // namespace autotrain
