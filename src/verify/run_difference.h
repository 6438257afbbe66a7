#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace autotrain {

/// The first difference between what two runs had learned at an update: "" when every file of the two
/// checkpoints that holds tensors has the same bytes, else the first tensor that differs and by how much.
/// @throws Error(kBadData, kMissingFile) when a checkpoint is not there.
std::string first_difference(const std::filesystem::path& run, const std::filesystem::path& other,
                             int64_t update);

/// The largest relative difference of the losses of two runs over their updates; infinite when the updates or
/// the samples that they took differ.
double largest_loss_difference(const std::filesystem::path& run, const std::filesystem::path& other);

/// The first row of metrics.jsonl that differs, what depends on the clock or on memory and events left
/// out; "" for none.
std::string first_differing_row(const std::filesystem::path& run, const std::filesystem::path& other);

}  // namespace autotrain
