#include "verify/run_difference.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "base/json.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors.h"
#include "report/metrics_file.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

using Json = nlohmann::ordered_json;

std::string describe_difference(const NamedTensor& a, const NamedTensor& b) {
  if (a.name != b.name) return cat(a.name, " stands where the other has ", b.name);
  if (a.tensor.sizes() != b.tensor.sizes() || a.tensor.scalar_type() != b.tensor.scalar_type())
    return a.name + " has another shape or type";
  if (a.tensor.scalar_type() != torch::kFloat32) return a.name + " differs";
  // In plain loops: LibTorch would start threads, and this process forks.
  const auto *left = a.tensor.const_data_ptr<float>(), *right = b.tensor.const_data_ptr<float>();
  double gap = 0;
  for (int64_t i = 0; i < a.tensor.numel(); ++i)
    gap = std::max(gap, std::abs(double{left[i]} - double{right[i]}));
  return cat(a.name, " differs by up to ", brief(gap));
}

std::string first_differing_tensor(const fs::path& file, const fs::path& other) {
  const auto tensors = read_safetensors(file), others = read_safetensors(other);
  for (size_t i = 0; i < std::min(tensors.size(), others.size()); ++i) {
    const NamedTensor &a = tensors[i], &b = others[i];
    const bool same =
        a.name == b.name && a.tensor.nbytes() == b.tensor.nbytes() &&
        std::memcmp(a.tensor.const_data_ptr(), b.tensor.const_data_ptr(), a.tensor.nbytes()) == 0;
    if (!same) return describe_difference(a, b);
  }
  return "the files hold other tensors";
}

// The rows of the kinds that `wanted` accepts.
template <class Wanted>
std::vector<Json> rows_where(const fs::path& run, Wanted wanted) {
  std::vector<Json> rows = read_metrics(run / "metrics.jsonl");
  std::erase_if(rows, [&](const Json& row) { return !wanted(row.value("kind", "")); });
  return rows;
}

std::vector<Json> timeless_rows(const fs::path& run) {
  auto rows = rows_where(run, [](const std::string& kind) { return kind != "event"; });
  for (Json& row : rows) {
    for (const std::string& key : timed_keys()) row.erase(key);
  }
  return rows;
}

std::vector<Json> updates_of(const fs::path& run) {
  return rows_where(run, [](const std::string& kind) { return kind == "update"; });
}

}  // namespace

std::string first_difference(const fs::path& run, const fs::path& other, int64_t update) {
  const fs::path a = CheckpointFolder(run / "checkpoints").path_of(update);
  const fs::path b = CheckpointFolder(other / "checkpoints").path_of(update);
  for (const char* const name : {"model.safetensors", "optimizer.safetensors", "averaged.safetensors"}) {
    if (!fs::exists(a / name) && !fs::exists(b / name)) continue;
    constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
    if (read_file(a / name, kAny) != read_file(b / name, kAny))
      return first_differing_tensor(a / name, b / name);
  }
  return "";
}

double largest_loss_difference(const fs::path& run, const fs::path& other) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const auto rows = updates_of(run), others = updates_of(other);
  if (rows.size() != others.size()) return kNever;
  double largest = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].at("samples") != others[i].at("samples")) return kNever;
    const double a = number_or_nan(rows[i].at("loss")), b = number_or_nan(others[i].at("loss"));
    if (std::isnan(a) != std::isnan(b)) return kNever;
    if (std::isnan(a)) continue;
    largest = std::max(largest, std::abs(a - b) / std::max(std::abs(b), 1e-12));
  }
  return largest;
}

std::string first_differing_row(const fs::path& run, const fs::path& other) {
  const auto rows = timeless_rows(run), others = timeless_rows(other);
  for (size_t i = 0; i < std::min(rows.size(), others.size()); ++i) {
    if (rows[i] != others[i])
      return cat("row ", i + 1, ": ", words_of_json(rows[i]), " and ", words_of_json(others[i]));
  }
  return rows.size() == others.size() ? "" : cat(rows.size(), " rows and ", others.size());
}

}  // namespace autotrain
