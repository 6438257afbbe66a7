#include "model/compressed_file.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <set>

#include "autotrain/error.h"
#include "base/text.h"
#include "checkpoint/file_notes.h"

namespace autotrain {
namespace fs = std::filesystem;
namespace {

constexpr const char *kInt8 = ".int8", *kInt4 = ".int4", *kSparse = ".sparse";
constexpr const char *kScale = ".scale", *kPlaces = ".places", *kShape = ".shape", *kKept = ".kept",
                     *kStays = ".stays", *kOwnWeight = ".weight";

constexpr const char *kMarker = "autotrain.smaller_weights", *kMethod = "autotrain.method";
constexpr int64_t kVersion = 1;  // of the format; a newer one may have forms that are not known here

// Whether the file says that it is one of these, in a version that is read here.
bool is_marked(const fs::path& path) {
  const FileNotes notes = read_safetensors_metadata(path);
  const auto marker = notes.find(kMarker);
  if (marker == notes.end()) return false;
  int64_t version = 0;
  if (!parse_integer(marker->second, version) || version < 1) {
    throw Error(ExitCode::kBadData, path.string(),
                cat("has ", quote(marker->second), " as ", kMarker, " in its metadata, which is no version"),
                "the file is damaged; write it again with autotrain compress");
  }
  if (version <= kVersion) return true;
  throw Error(ExitCode::kBadData, path.string(),
              cat("holds smaller weights in version ", version, " of their format, and this autotrain reads ",
                  "none newer than ", kVersion),
              "use the autotrain that wrote it, or a later one");
}

// A tensor that stands for another one, with what it needs beside it. A model may have tensors of such names:
// only together they are of these.
struct Kind {
  const char* ending;
  std::vector<const char*> beside;
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {
      {kInt8, {kScale}}, {kInt4, {kScale, kShape}}, {kSparse, {kPlaces, kShape}}, {kKept, {}}, {kStays, {}}};
  return all;
}

std::string without(const std::string& name, const std::string& ending) {
  return name.substr(0, name.size() - ending.size());
}

bool is_of(const Kind& kind, const std::string& name, const std::set<std::string>& names) {
  if (!name.ends_with(kind.ending)) return false;
  const std::string base = without(name, kind.ending);
  const auto is_there = [&](const std::string& weight) {
    return std::ranges::any_of(std::array{"", kInt8, kInt4, kSparse},
                               [&](const char* form) { return names.contains(weight + form); });
  };
  if (kind.ending == kKept) return is_there(base + kOwnWeight);
  if (kind.ending == kStays) return is_there(base);
  return std::ranges::all_of(kind.beside, [&](const char* other) { return names.contains(base + other); });
}

template <class Named>
std::set<std::string> all_names(const std::vector<Named>& items) {
  std::set<std::string> names;
  for (const Named& item : items) names.insert(item.name);
  return names;
}

class Restoring {
 public:
  Restoring(fs::path path, std::vector<NamedTensor> stored)
      : path_(std::move(path)), stored_(std::move(stored)), names_(all_names(stored_)) {
    for (const NamedTensor& item : stored_) by_name_.emplace(item.name, item.tensor);
  }

  CompressedWeights all() {
    for (const NamedTensor& item : stored_) take(item);
    for (const NamedTensor& item : stored_) {
      if (!used_.contains(item.name)) result_.tensors.push_back(item);
    }
    for (const NamedTensor& item : result_.tensors) take_stays(item);
    return std::move(result_);
  }

 private:
  void take(const NamedTensor& item) {
    for (const Kind& kind : kinds()) {
      if (!is_of(kind, item.name, names_)) continue;
      name_ = without(item.name, kind.ending);
      used_.insert(item.name);
      if (kind.ending == kKept) return take_kept(item.tensor);
      if (kind.ending == kStays) return;  // until the weight's shape is known
      for (const char* other : kind.beside) used_.insert(name_ + other);
      require(!names_.contains(name_) && restored_.insert(name_).second, kind.ending);  // one form of each
      result_.tensors.push_back({name_, restored(kind.ending, item.tensor)});
      return;
    }
  }

  void take_kept(const torch::Tensor& kept) {
    require(kept.scalar_type() == torch::kInt64 && kept.dim() == 1, kKept);
    result_.kept.emplace(name_, kept);
  }

  void take_stays(const NamedTensor& weight) {
    const auto found = by_name_.find(weight.name + kStays);
    if (found == by_name_.end()) return;
    name_ = weight.name;
    const torch::Tensor& bits = found->second;
    const std::vector<int64_t> shape = weight.tensor.sizes().vec();
    require(!shape.empty() && weight.tensor.numel() > 0, kStays);
    require(bits.scalar_type() == torch::kUInt8 &&
                bits.sizes() == std::vector{shape[0], (inputs_of(shape) + 7) / 8},
            kStays);
    const torch::Tensor mask = from_bits(bits, shape);
    const auto [places, is_new] = result_.stays.emplace(name_, mask);
    if (!is_new) places->second = places->second.logical_and(mask);  // of the places of 2:4
  }

  torch::Tensor restored(const char* ending, const torch::Tensor& values) {
    if (ending == kInt8) return of_int8(values);
    if (ending == kInt4) return of_int4(values);
    return of_sparse(values);
  }

  torch::Tensor of_int8(const torch::Tensor& values) const {
    require(values.scalar_type() == torch::kInt8 && values.dim() > 0 && values.numel() > 0, kInt8);
    return from_int8({values, beside(kScale, torch::kFloat32, {values.size(0)})});
  }

  torch::Tensor of_int4(const torch::Tensor& values) const {
    require(values.scalar_type() == torch::kUInt8 && values.dim() == 3, kInt4);
    const std::vector<int64_t> shape = shape_of_weight(values.size(0));
    const int64_t groups = values.size(1), group = 2 * values.size(2), inputs = inputs_of(shape);
    require(group > 0 && inputs <= groups * group && inputs > (groups - 1) * group, kShape);
    return from_int4({values, beside(kScale, torch::kFloat32, {values.size(0), groups}), shape});
  }

  torch::Tensor of_sparse(const torch::Tensor& values) {
    require(values.is_floating_point() && values.dim() == 3 && values.size(2) == 2, kSparse);
    const std::vector<int64_t> shape = shape_of_weight(values.size(0));
    const int64_t groups = values.size(1);
    require(has_groups_of_four(shape) && inputs_of(shape) % 4 == 0 && inputs_of(shape) / 4 == groups, kShape);
    const torch::Tensor places = beside(kPlaces, torch::kUInt8, {values.size(0), groups});
    const torch::Tensor first = places.bitwise_and(3), second = places.bitwise_right_shift(2);
    require(first.lt(second).logical_and(second.lt(4)).all().item<bool>(), kPlaces);
    result_.stays.emplace(name_, from_sparse({at::ones_like(values, torch::kBool), places, shape}));
    return from_sparse({values, places, shape});
  }

  torch::Tensor beside(const char* ending, torch::ScalarType type, const std::vector<int64_t>& sizes) const {
    const torch::Tensor& tensor = by_name_.at(name_ + ending);
    require(tensor.scalar_type() == type && tensor.sizes() == sizes, ending);
    return tensor;
  }

  // [out, …], of positive sizes whose product fits 63 bits.
  std::vector<int64_t> shape_of_weight(int64_t out) const {
    const torch::Tensor& tensor = by_name_.at(name_ + kShape);
    require(tensor.scalar_type() == torch::kInt64 && tensor.dim() == 1 && tensor.numel() > 0, kShape);
    const auto* const sizes = tensor.const_data_ptr<int64_t>();
    std::vector<int64_t> shape(sizes, sizes + tensor.numel());
    int64_t product = 1;
    for (const int64_t size : shape)
      require(size > 0 && !__builtin_mul_overflow(product, size, &product), kShape);
    require(shape[0] == out, kShape);
    return shape;
  }

  static int64_t inputs_of(const std::vector<int64_t>& shape) {
    int64_t inputs = 1;
    for (size_t i = 1; i < shape.size(); ++i) inputs *= shape[i];
    return inputs;
  }

  void require(bool condition, const char* ending) const {
    if (condition) return;
    throw Error(ExitCode::kBadData, path_.string(),
                cat("tensor ", quote(name_ + ending), " is not what smaller weights have under such a name"),
                "the file is damaged; write it again with autotrain compress");
  }

  const fs::path path_;
  const std::vector<NamedTensor> stored_;
  const std::set<std::string> names_;
  std::map<std::string, torch::Tensor> by_name_;
  std::set<std::string> used_, restored_;
  std::string name_;  // of the tensor under way
  CompressedWeights result_;
};

}  // namespace

std::vector<NamedTensor> stored_as(const std::string& name, const Int8Weight& weight) {
  return {{name + kInt8, weight.values}, {name + kScale, weight.scale}};
}

std::vector<NamedTensor> stored_as(const std::string& name, const Int4Weight& weight) {
  return {{name + kInt4, weight.values},
          {name + kScale, weight.scale},
          {name + kShape, torch::tensor(weight.shape, torch::kInt64)}};
}

std::vector<NamedTensor> stored_as(const std::string& name, const SparseWeight& weight) {
  return {{name + kSparse, weight.values},
          {name + kPlaces, weight.places},
          {name + kShape, torch::tensor(weight.shape, torch::kInt64)}};
}

std::string name_of_kept(const std::string& part) {
  return part + kKept;
}

std::string name_of_stays(const std::string& weight) {
  return weight + kStays;
}

bool looks_compressed(const std::string& name) {
  return std::ranges::any_of(std::array{kInt8, kInt4, kSparse, kStays},
                             [&](const char* ending) { return name.ends_with(ending); });
}

void write_compressed(const fs::path& path, const std::vector<NamedTensor>& tensors,
                      const std::string& method) {
  write_safetensors(path, tensors, {{kMarker, std::to_string(kVersion)}, {kMethod, method}});
}

std::optional<CompressedWeights> read_compressed(const fs::path& path) {
  if (path.extension() == ".json" || !is_marked(path)) return std::nullopt;
  return Restoring(path, read_safetensors(path)).all();
}

WeightsFile::WeightsFile(fs::path path) : path_(std::move(path)), compressed_(read_compressed(path_)) {}

std::vector<TensorEntry> WeightsFile::list() const {
  if (!compressed_) return list_safetensors(path_);
  std::vector<TensorEntry> entries;
  for (const NamedTensor& item : compressed_->tensors)
    entries.push_back({item.name, item.tensor.scalar_type(), item.tensor.sizes().vec()});
  return entries;
}

void WeightsFile::read_some(const std::function<torch::Tensor(const TensorEntry&)>& target) const {
  if (!compressed_) return read_some_safetensors(path_, target);
  const torch::NoGradGuard no_gradients;
  for (const NamedTensor& item : compressed_->tensors) {
    const torch::Tensor wanted = target({item.name, item.tensor.scalar_type(), item.tensor.sizes().vec()});
    if (wanted.defined()) wanted.copy_(item.tensor);
  }
}

}  // namespace autotrain
