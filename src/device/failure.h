#pragma once

#include <exception>
#include <stdexcept>
#include <string>

namespace autotrain {

/// What an exception out of a training step means for the size that was tried.
enum class Failure {
  kOutOfMemory,    ///< the allocator refused, or a library said that it could not allocate
  kLibraryMemory,  ///< a library failed in the way it does when memory is short
  kIndexLimit,     ///< the size is beyond what a kernel can index or launch
  kOther,          ///< an error, never "does not fit": below is what else is told apart
};

/// A failure of another rank, which this one takes as its own: both do the same about it.
class FailureElsewhere : public std::runtime_error {
 public:
  FailureElsewhere(Failure failure, const std::string& what) : std::runtime_error(what), failure_(failure) {}
  Failure failure() const { return failure_; }

 private:
  Failure failure_;
};

/// The one place where out of memory is recognised: by type, and by the few library codes that mean
/// the same.
Failure classify_failure(const std::exception& error);

/// Whether the device failed in a way that it stays in for this process: by CUDA's codes, or by its texts
/// where a library gives no type. Whatever is asked of it from now on fails too.
bool is_device_lost(const std::exception& error);

/// Whether a kernel met an index out of range, which is how a device is lost to a target beyond the classes.
bool is_device_assert(const std::exception& error);

/// Whether LibTorch has no kernels for this kind of GPU.
bool lacks_kernels(const std::exception& error);

/// Whether the GPU takes no process more: another one has it for itself, or its compute mode admits none.
bool is_device_taken(const std::exception& error);

/// The operator of which LibTorch has no kernel that repeats bit for bit, where one was asked for: "put_". Of
/// any other exception "".
std::string nondeterministic_operator(const std::exception& error);

/// Whether the exception tells of the device or of how it was set up, not of the code or the sample at which
/// it was met: any of the above but memory, and every other error of CUDA.
bool is_of_device(const std::exception& error);

/// The first line of an exception's message, without LibTorch's stack of source locations.
std::string first_line(const std::exception& error);

}  // namespace autotrain
