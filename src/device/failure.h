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
  kOther,          ///< an error, never "does not fit"
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

/// The first line of an exception's message, without LibTorch's stack of source locations.
std::string first_line(const std::exception& error);

}  // namespace autotrain
