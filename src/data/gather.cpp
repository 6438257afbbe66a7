#include "data/gather.h"

#include <cstring>

namespace autotrain {

torch::Tensor gather_rows(const torch::Tensor& rows, c10::ArrayRef<int64_t> indices) {
  std::vector<int64_t> shape = rows.sizes().vec();
  shape[0] = static_cast<int64_t>(indices.size());
  torch::Tensor out = torch::empty(shape, rows.options());
  const size_t row_bytes = rows.numel() == 0 ? 0 : rows.nbytes() / static_cast<size_t>(rows.size(0));
  const auto* const source = static_cast<const std::byte*>(rows.const_data_ptr());
  auto* destination = static_cast<std::byte*>(out.mutable_data_ptr());
  for (const int64_t index : indices) {
    std::memcpy(destination, source + static_cast<size_t>(index) * row_bytes, row_bytes);
    destination += row_bytes;
  }
  return out;
}

}  // namespace autotrain
