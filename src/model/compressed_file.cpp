#include "model/compressed_file.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <set>

#include "autotrain/error.h"
#include "base/text.h"
#include "checkpoint/file_notes.h"
#include "checkpoint/foreign_weights.h"

namespace autotrain {
namespace fs = std::filesystem;
namespace {

constexpr const char *kInt8 = "int8", *kInt4 = "int4", *kSparse = "sparse";
constexpr const char *kScale = "scale", *kPlaces = "places", *kShape = "shape", *kKept = "kept",
                     *kStays = "stays";

constexpr const char *kMarker = "autotrain.smaller_weights", *kMethod = "autotrain.method";
constexpr int64_t kVersion = 2;  // of the format; a newer one may have forms that are not known here

// Between a weight's name and what stands for it: no part of a module has an empty name, so that no tensor of
// a model is called so. Version 1 had one dot, and took a model's own tensors for these where they met.
constexpr const char *kDots = "..", *kDotsOfVersion1 = ".";

// The version in which a file's notes say that it is one of these; 0: they do not.
int64_t version_of(const fs::path& path, const FileNotes& notes) {
  const auto marker = notes.find(kMarker);
  if (marker == notes.end()) return 0;
  int64_t version = 0;
  if (!parse_integer(marker->second, version) || version < 1) {
    throw Error(ExitCode::kBadData, path.string(),
                cat("has ", quote(marker->second), " as ", kMarker, " in its metadata, which is no version"),
                "the file is damaged; write it again with autotrain compress");
  }
  if (version <= kVersion) return version;
  throw Error(ExitCode::kBadData, path.string(),
              cat("holds smaller weights in version ", version, " of their format, and this autotrain reads ",
                  "none newer than ", kVersion),
              "use the autotrain that wrote it, or a later one");
}

// A tensor that stands for another one, with what it needs beside it. A model may have tensors of such names:
// of version 1 only together they are of these.
struct Kind {
  const char* word;
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

template <class Named>
std::set<std::string> all_names(const std::vector<Named>& items) {
  std::set<std::string> names;
  for (const Named& item : items) names.insert(item.name);
  return names;
}

int64_t count_of(const std::vector<int64_t>& shape) {
  return c10::multiply_integers(shape);
}

class Restoring {
 public:
  Restoring(fs::path path, std::vector<NamedTensor> stored, std::string dots)
      : path_(std::move(path)),
        stored_(std::move(stored)),
        dots_(std::move(dots)),
        names_(all_names(stored_)) {
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
  std::string called(const std::string& name, const char* word) const { return name + dots_ + word; }

  bool is_there(const std::string& weight) const {
    return names_.contains(weight) ||
           std::ranges::any_of(std::array{kInt8, kInt4, kSparse},
                               [&](const char* form) { return names_.contains(called(weight, form)); });
  }

  bool is_of(const Kind& kind, const std::string& name) const {
    if (!name.ends_with(dots_ + kind.word)) return false;
    const std::string base = without(name, dots_ + kind.word);
    if (kind.word == kKept) return is_there(base + ".weight");
    if (kind.word == kStays) return is_there(base);
    return std::ranges::all_of(kind.beside,
                               [&](const char* other) { return names_.contains(called(base, other)); });
  }

  void take(const NamedTensor& item) {
    for (const Kind& kind : kinds()) {
      if (!is_of(kind, item.name)) continue;
      name_ = without(item.name, dots_ + kind.word);
      used_.insert(item.name);
      if (kind.word == kKept) return take_kept(item.tensor);
      if (kind.word == kStays) return;  // until the weight's shape is known
      for (const char* other : kind.beside) used_.insert(called(name_, other));
      require(!names_.contains(name_) && restored_.insert(name_).second, kind.word);  // one form of each
      result_.tensors.push_back({name_, restored(kind.word, item.tensor)});
      return;
    }
  }

  void take_kept(const torch::Tensor& kept) {
    require(kept.scalar_type() == torch::kInt64 && kept.dim() == 1, kKept);
    result_.kept.emplace(name_, kept);
  }

  void take_stays(const NamedTensor& weight) {
    const auto found = by_name_.find(called(weight.name, kStays));
    if (found == by_name_.end()) return;
    name_ = weight.name;
    const torch::Tensor& bits = found->second;
    const std::vector<int64_t> shape = weight.tensor.sizes().vec();
    require(!shape.empty() && weight.tensor.numel() > 0, kStays);
    const int64_t inputs = count_of(shape) / shape[0];
    require(bits.scalar_type() == torch::kUInt8 && bits.sizes() == std::vector{shape[0], (inputs + 7) / 8},
            kStays);
    const torch::Tensor mask = from_bits(bits, shape);
    const auto [places, is_new] = result_.stays.emplace(name_, mask);
    if (!is_new) places->second = places->second.logical_and(mask);  // of the places of 2:4
  }

  torch::Tensor restored(const char* word, const torch::Tensor& values) {
    if (word == kInt8) return of_int8(values);
    if (word == kInt4) return of_int4(values);
    return of_sparse(values);
  }

  torch::Tensor of_int8(const torch::Tensor& values) const {
    require(values.scalar_type() == torch::kInt8 && values.dim() > 0 && values.numel() > 0, kInt8);
    const int64_t outputs_end = beside_of(kScale).dim() == 2 && values.dim() > 2 ? 2 : 1;  // of experts two
    const auto outputs = values.sizes().slice(0, static_cast<size_t>(outputs_end));
    return from_int8({values, beside(kScale, torch::kFloat32, outputs.vec())});
  }

  torch::Tensor of_int4(const torch::Tensor& values) const {
    require(values.scalar_type() == torch::kUInt8 && values.dim() == 3, kInt4);
    const std::vector<int64_t> shape = shape_of_weight();
    const int64_t out = values.size(0), groups = values.size(1), group = 2 * values.size(2);
    require(out == shape[0] || (shape.size() > 2 && out == shape[0] * shape[1]), kShape);  // of experts
    const int64_t inputs = count_of(shape) / out;
    require(group > 0 && inputs <= groups * group && inputs > (groups - 1) * group, kShape);
    return from_int4({values, beside(kScale, torch::kFloat32, {out, groups}), shape});
  }

  torch::Tensor of_sparse(const torch::Tensor& values) {
    require(values.is_floating_point() && values.dim() == 3 && values.size(2) == 2, kSparse);
    const std::vector<int64_t> shape = shape_of_weight();
    const int64_t out = values.size(0), groups = values.size(1);
    require(out == shape[0] && has_groups_of_four(shape) && count_of(shape) == out * groups * 4, kShape);
    const torch::Tensor places = beside(kPlaces, torch::kUInt8, {out, groups});
    const torch::Tensor first = places.bitwise_and(3), second = places.bitwise_right_shift(2);
    require(first.lt(second).logical_and(second.lt(4)).all().item<bool>(), kPlaces);
    result_.stays.emplace(name_, from_sparse({at::ones_like(values, torch::kBool), places, shape}));
    return from_sparse({values, places, shape});
  }

  const torch::Tensor& beside_of(const char* word) const { return by_name_.at(called(name_, word)); }

  torch::Tensor beside(const char* word, torch::ScalarType type, const std::vector<int64_t>& sizes) const {
    const torch::Tensor& tensor = beside_of(word);
    require(tensor.scalar_type() == type && tensor.sizes() == sizes, word);
    return tensor;
  }

  // [out, …], of positive sizes whose product fits 63 bits.
  std::vector<int64_t> shape_of_weight() const {
    const torch::Tensor& tensor = beside_of(kShape);
    require(tensor.scalar_type() == torch::kInt64 && tensor.dim() == 1 && tensor.numel() > 0, kShape);
    const auto* const sizes = tensor.const_data_ptr<int64_t>();
    std::vector<int64_t> shape(sizes, sizes + tensor.numel());
    int64_t product = 1;
    for (const int64_t size : shape)
      require(size > 0 && !__builtin_mul_overflow(product, size, &product), kShape);
    return shape;
  }

  void require(bool condition, const char* word) const {
    if (condition) return;
    throw Error(
        ExitCode::kBadData, path_.string(),
        cat("tensor ", quote(called(name_, word)), " is not what smaller weights have under such a name"),
        "the file is damaged; write it again with autotrain compress");
  }

  const fs::path path_;
  const std::vector<NamedTensor> stored_;
  const std::string dots_;
  const std::set<std::string> names_;
  std::map<std::string, torch::Tensor> by_name_;
  std::set<std::string> used_, restored_;
  std::string name_;  // of the tensor under way
  CompressedWeights result_;
};

std::string called(const std::string& name, const char* word) {
  return name + kDots + word;
}

// Nothing: it is an ordinary file.
std::optional<CompressedWeights> restored_of(const fs::path& file) {
  const int64_t version = version_of(file, read_safetensors_metadata(file));
  if (version == 0) return std::nullopt;
  return Restoring(file, read_safetensors(file), version == 1 ? kDotsOfVersion1 : kDots).all();
}

// The index and the shard have to tell the same of the tensors: of tied ones a shard may hold one, and name
// the others.
void check_shard(const fs::path& index, const WeightShard& shard) {
  refuse_foreign_weights(shard.path);
  const FileNotes notes = read_safetensors_metadata(shard.path);
  if (version_of(shard.path, notes) > 0) {
    throw Error(ExitCode::kBadData, shard.path.string(),
                cat("holds smaller weights of autotrain compress, and ", index.string(),
                    " makes it one of several files"),
                "name the file by itself: it is a whole model");
  }
  const std::set<std::string> held = all_names(list_safetensors(shard.path));
  const auto is_held = [&](const std::string& name) {
    const auto other = notes.find(name);
    return held.contains(name) || (other != notes.end() && held.contains(other->second));
  };
  std::vector<std::string> lacking, more;
  std::ranges::remove_copy_if(shard.names, std::back_inserter(lacking), is_held);
  std::ranges::set_difference(held, shard.names, std::back_inserter(more));
  if (lacking.empty() && more.empty()) return;
  std::string text = cat("does not hold the tensors that ", index.filename().string(), " says");
  if (!lacking.empty()) text += "\n  not in the file: " + some_of(lacking);
  if (!more.empty()) text += "\n  only in the file: " + some_of(more);
  throw Error(ExitCode::kBadData, shard.path.string(), text,
              "index and files are of different versions of the model: download all of them again");
}

}  // namespace

std::vector<NamedTensor> stored_as(const std::string& name, const Int8Weight& weight) {
  return {{called(name, kInt8), weight.values}, {called(name, kScale), weight.scale}};
}

std::vector<NamedTensor> stored_as(const std::string& name, const Int4Weight& weight) {
  return {{called(name, kInt4), weight.values},
          {called(name, kScale), weight.scale},
          {called(name, kShape), torch::tensor(weight.shape, torch::kInt64)}};
}

std::vector<NamedTensor> stored_as(const std::string& name, const SparseWeight& weight) {
  return {{called(name, kSparse), weight.values},
          {called(name, kPlaces), weight.places},
          {called(name, kShape), torch::tensor(weight.shape, torch::kInt64)}};
}

std::string name_of_kept(const std::string& part) {
  return called(part, kKept);
}

std::string name_of_stays(const std::string& weight) {
  return called(weight, kStays);
}

bool looks_compressed(const std::string& name) {
  return std::ranges::any_of(std::array{kInt8, kInt4, kSparse, kStays},
                             [&](const char* word) { return name.ends_with(cat(".", word)); });
}

void write_compressed(const fs::path& path, const std::vector<NamedTensor>& tensors,
                      const std::string& method) {
  write_safetensors(path, tensors, {{kMarker, std::to_string(kVersion)}, {kMethod, method}});
}

std::optional<CompressedWeights> read_compressed(const fs::path& path) {
  const fs::path file = weights_named(path);
  return is_weight_index(file) ? std::nullopt : restored_of(file);
}

WeightsFile::WeightsFile(const fs::path& path) {
  const fs::path named = weights_named(path);
  if (!is_weight_index(named)) {
    files_ = {{.path = named}};
    compressed_ = restored_of(named);
    return;
  }
  files_ = read_weight_index(named);
  for (const WeightShard& shard : files_) check_shard(named, shard);
}

std::vector<TensorEntry> WeightsFile::list() const {
  std::vector<TensorEntry> entries;
  if (!compressed_) {
    for (const WeightShard& shard : files_)
      std::ranges::move(list_safetensors(shard.path), std::back_inserter(entries));
    return entries;
  }
  for (const NamedTensor& item : compressed_->tensors)
    entries.push_back({item.name, item.tensor.scalar_type(), item.tensor.sizes().vec()});
  return entries;
}

void WeightsFile::read_some(const std::function<torch::Tensor(const TensorEntry&)>& target) const {
  const torch::NoGradGuard no_gradients;
  if (!compressed_) {
    for (const WeightShard& shard : files_) read_some_safetensors(shard.path, target);
    return;
  }
  for (const NamedTensor& item : compressed_->tensors) {
    const torch::Tensor wanted = target({item.name, item.tensor.scalar_type(), item.tensor.sizes().vec()});
    if (wanted.defined()) wanted.copy_(item.tensor);
  }
}

}  // namespace autotrain
