#include "loop/bad_values.h"

#include <cmath>

#include "autotrain/log.h"
#include "base/text.h"
#include "data/names.h"
#include "device/failure.h"

namespace autotrain {
namespace {

// The number of the first sample of [n, …] that holds a value that is not finite, and that value.
std::optional<std::pair<size_t, double>> first_not_finite(const torch::Tensor& values) {
  if (!values.defined() || !values.is_floating_point() || values.numel() == 0) return std::nullopt;
  const torch::Tensor rows = values.detach().to(torch::kCPU).reshape({values.size(0), -1});
  const torch::Tensor bad = at::isfinite(rows).logical_not();
  const torch::Tensor first = bad.any(1).nonzero();
  if (first.numel() == 0) return std::nullopt;
  const auto row = first[0].item<int64_t>();
  return std::pair(static_cast<size_t>(row), rows[row].masked_select(bad[row])[0].item<double>());
}

std::string in_words(const char* what, const Dataset& data, int64_t index, double value) {
  const auto* const skipping = dynamic_cast<const SkippingDataset*>(&data);
  const auto* const named = dynamic_cast<const Named*>(skipping != nullptr ? &skipping->dataset() : &data);
  const std::string name =
      named != nullptr && named->names_samples() ? cat(" (", named->sample_name(index), ")") : "";
  return cat("the ", what, " of sample ", index, name, " hold ", value, ": the data are at fault");
}

std::string look(const Dataset& data, const Stream& stream, const Piece& piece) {
  const Stream::Draw draw = stream.draw(piece);
  const Batch batch = data.get(draw.indices, SampleRandom(stream.seed(), draw.indices, draw.epochs));
  for (const torch::Tensor& input : batch.all_inputs()) {
    if (const auto bad = first_not_finite(input))
      return in_words("inputs", data, draw.indices[bad->first], bad->second);
  }
  if (const auto bad = first_not_finite(batch.targets))
    return in_words("targets", data, draw.indices[bad->first], bad->second);
  return "";
}

}  // namespace

std::string first_bad_value(Workbench& bench, const QueuedUpdate& window) {
  const Dataset& data = *bench.data.train;
  try {
    constexpr int64_t kPiece = 64;
    const int64_t end = window.first + window.samples;
    for (int64_t at = window.first; at < end; at += kPiece) {
      const std::string found = look(data, bench.stream, consecutive(at, std::min(kPiece, end - at)));
      if (!found.empty()) return found;
    }
  } catch (const std::exception& error) {
    log::debug("trainer", cat("looking for values that are not finite failed: ", first_line(error)));
  }
  return "";
}

std::string BadValues::find(Workbench& bench, const QueuedUpdate& window) {
  if (looks_++ >= kMostLooks) return "";
  std::string found = first_bad_value(bench, window);
  return told_.insert(found).second ? found : "";
}

}  // namespace autotrain
