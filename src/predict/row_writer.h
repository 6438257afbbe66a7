#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

namespace autotrain {

/// Makes a file's text of what is told of samples.
class RowWriter {
 public:
  virtual ~RowWriter() = default;

  virtual const std::vector<std::string>& columns() const = 0;

  /// What stands before the first row.
  virtual std::string header() const = 0;

  /// The rows of samples from `first` on. @param told [n, …] float32 as told_of.
  virtual std::string rows(int64_t first, const torch::Tensor& told) const = 0;
};

}  // namespace autotrain
