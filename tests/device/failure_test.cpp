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
