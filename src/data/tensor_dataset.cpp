#include "autotrain/data.h"
#include "autotrain/error.h"
#include "base/random.h"
#include "base/text.h"
#include "data/gather.h"

namespace autotrain {

uint64_t SampleRandom::key(size_t i) const {
  return derive_key(seed_, static_cast<uint64_t>(RandomUse::kAugmentation), epochs_[i], indices_[i]);
}

TensorDataset::TensorDataset(torch::Tensor inputs, torch::Tensor targets, int64_t classes)
    : inputs_(inputs.contiguous()),
      targets_(targets.defined() ? targets.contiguous() : targets),
      classes_(classes) {
  if (!targets_.defined() || targets_.size(0) == inputs_.size(0)) return;
  throw Error(ExitCode::kBadData, "TensorDataset",
              cat(inputs_.size(0), " inputs but ", targets_.size(0), " targets"));
}

int64_t TensorDataset::size() const {
  return inputs_.size(0);
}

Batch TensorDataset::get(c10::ArrayRef<int64_t> indices, const SampleRandom&) const {
  return {gather_rows(inputs_, indices),
          targets_.defined() ? gather_rows(targets_, indices) : torch::Tensor(),
          static_cast<int64_t>(indices.size())};
}

DatasetInfo TensorDataset::info() const {
  DatasetInfo info;
  info.input_shape = inputs_.sizes().slice(1).vec();
  info.kind = info.input_shape.size() == 3   ? DatasetInfo::Kind::kImages
              : info.input_shape.size() == 1 ? DatasetInfo::Kind::kVectors
                                             : DatasetInfo::Kind::kUnknown;
  info.classes = classes_;
  return info;
}

}  // namespace autotrain
