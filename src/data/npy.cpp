#include <algorithm>
#include <cstring>

#include "autotrain/error.h"
#include "base/text.h"
#include "data/datasets.h"
#include "data/gather.h"
#include "data/image_dataset.h"
#include "data/npy_array.h"

namespace autotrain {
namespace {

constexpr int64_t kMostClasses = 1 << 24;

// Elements need not be aligned in the file.
template <class From, class To, class Change>
void copy_elements(const uint8_t* from, int64_t count, To* to, Change change) {
  for (int64_t i = 0; i < count; ++i) {
    From element;
    std::memcpy(&element, from + i * static_cast<int64_t>(sizeof(From)), sizeof(From));
    to[i] = change(element);
  }
}

// `count` elements that lie at `from`, as float32 or int64.
template <class To>
void convert(NpyType type, const uint8_t* from, int64_t count, To* to) {
  const auto plain = [](auto element) { return static_cast<To>(element); };
  switch (type) {
    case NpyType::kBool:
      return copy_elements<uint8_t>(from, count, to, [](uint8_t byte) { return static_cast<To>(byte != 0); });
    case NpyType::kUint8: return copy_elements<uint8_t>(from, count, to, plain);
    case NpyType::kInt8: return copy_elements<int8_t>(from, count, to, plain);
    case NpyType::kInt16: return copy_elements<int16_t>(from, count, to, plain);
    case NpyType::kInt32: return copy_elements<int32_t>(from, count, to, plain);
    case NpyType::kInt64: return copy_elements<int64_t>(from, count, to, plain);
    case NpyType::kFloat16: return copy_elements<c10::Half>(from, count, to, plain);
    case NpyType::kFloat32: return copy_elements<float>(from, count, to, plain);
    case NpyType::kFloat64: return copy_elements<double>(from, count, to, plain);
  }
}

// The samples of a recipe: some rows of both files.
struct Range {
  int64_t first = 0;
  int64_t count = 0;
};

struct Targets {
  torch::Tensor values = {};  // of the range; undefined when there are none
  int64_t classes = 0;
};

// An input of every sample: rows of an array, and what they become.
struct Column {
  std::shared_ptr<NpyArray> array;
  InputInfo info;
  bool pixels = false;  // bytes that become numbers from 0 to 1

  Column(std::shared_ptr<NpyArray> from, const std::string& name, torch::ScalarType type)
      : array(std::move(from)), info{name, type, {array->shape().begin() + 1, array->shape().end()}} {
    if (info.shape.empty()) info.shape = {1};
  }

  // Rows from `first` on: [n, …].
  torch::Tensor rows(c10::ArrayRef<int64_t> indices, int64_t first) const {
    std::vector<int64_t> shape = {static_cast<int64_t>(indices.size())};
    shape.insert(shape.end(), info.shape.begin(), info.shape.end());
    torch::Tensor made = torch::empty(shape, info.type);
    switch (info.type) {
      case torch::kInt64: fill(made.mutable_data_ptr<int64_t>(), indices, first); break;
      case torch::kBool: fill(made.mutable_data_ptr<bool>(), indices, first); break;
      default: fill(made.mutable_data_ptr<float>(), indices, first); break;
    }
    if (pixels) made.div_(255);
    return made;
  }

 private:
  template <class To>
  void fill(To* to, c10::ArrayRef<int64_t> indices, int64_t first) const {
    const int64_t size = array->row_size();
    for (const int64_t index : indices) {
      convert(array->type(), array->row(first + index), size, to);
      to += size;
    }
  }
};

// Rows that are converted when they are asked for.
class ArrayDataset final : public Dataset, public Preloadable {
 public:
  ArrayDataset(std::vector<Column> columns, Range range, Targets targets)
      : columns_(std::move(columns)), range_(range), targets_(std::move(targets)) {}

  int64_t size() const override { return range_.count; }

  Batch get(c10::ArrayRef<int64_t> indices, const SampleRandom&) const override {
    Batch batch{columns_[0].rows(indices, range_.first),
                targets_.values.defined() ? gather_rows(targets_.values, indices) : torch::Tensor(),
                static_cast<int64_t>(indices.size())};
    for (size_t i = 1; i < columns_.size(); ++i)
      batch.more_inputs.push_back(columns_[i].rows(indices, range_.first));
    return batch;
  }

  // Arrays of three dimensions are not called images: that would promise that they can be augmented.
  DatasetInfo info() const override {
    const std::vector<int64_t>& shape = columns_[0].info.shape;
    DatasetInfo info{.kind = shape.size() == 1 ? DatasetInfo::Kind::kVectors : DatasetInfo::Kind::kUnknown,
                     .input_shape = shape,
                     .classes = targets_.classes};
    for (const Column& column : columns_) {
      if (!column.info.name.empty()) info.inputs.push_back(column.info);
    }
    return info;
  }

  int64_t ram_bytes() const override {
    int64_t bytes = 0;
    for (const Column& column : columns_) bytes += column.array->mapped_bytes();
    return bytes;
  }
  void preload(const PreloadWork&) override {
    for (const Column& column : columns_) column.array->hold_in_memory();
  }

 private:
  std::vector<Column> columns_;
  Range range_;
  Targets targets_;
};

Range range_of(const Parameters& p, const NpyArray& inputs) {
  const int64_t first = p.integer("first");
  if (first >= inputs.rows()) {
    throw Error(ExitCode::kBadData, inputs.path().string(),
                cat("has ", inputs.rows(), " samples; the first one asked for is ", first),
                "give a smaller data.….first");
  }
  const int64_t rest = inputs.rows() - first;
  return {first, std::min(rest, p.optional_integer("limit").value_or(rest))};
}

// Classes are counted over the whole file, so that every range of it has the same.
int64_t count_classes(const NpyArray& targets, std::optional<int64_t> given) {
  const int64_t count = targets.rows() * targets.row_size();
  int64_t largest = -1;
  for (int64_t i = 0; i < count; ++i) {
    int64_t value = 0;
    convert(targets.type(), targets.row(0) + i * bytes_of(targets.type()), 1, &value);
    largest = std::max(largest, value);
    if (value >= 0 && value < given.value_or(kMostClasses)) continue;
    throw Error(
        ExitCode::kBadData,
        cat(targets.path().string(), ": offset ", targets.row_offset(0) + i * bytes_of(targets.type())),
        cat("the target ", value, " of sample ", i / targets.row_size(), " is ",
            value < 0 ? "negative"
                      : cat("not below the ", given.value_or(kMostClasses), " classes that there may be")),
        "targets are classes, counted from 0; save numbers to be predicted as float32");
  }
  return given.value_or(largest + 1);
}

Targets read_targets(const Parameters& p, const NpyArray& inputs, Range range) {
  if (p.text("targets").empty()) return {};
  const NpyArray file(p.text("targets"));
  if (file.rows() != inputs.rows()) {
    throw Error(
        ExitCode::kBadData, file.path().string(),
        cat("has ", file.rows(), " targets; ", inputs.path().string(), " has ", inputs.rows(), " samples"),
        "take both files from the same data");
  }
  std::vector<int64_t> shape = file.shape();
  shape[0] = range.count;
  // One number for a sample is a prediction of one column.
  if (file.is_real() && shape.size() == 1) shape.push_back(1);
  Targets targets{torch::empty(shape, file.is_real() ? torch::kFloat32 : torch::kInt64),
                  file.is_real() ? shape.back() : count_classes(file, p.optional_integer("classes"))};
  const uint8_t* const from = file.row(range.first);
  if (file.is_real()) {
    convert(file.type(), from, targets.values.numel(), targets.values.mutable_data_ptr<float>());
  } else {
    convert(file.type(), from, targets.values.numel(), targets.values.mutable_data_ptr<int64_t>());
  }
  return targets;
}

// The bytes of the range as a tensor [count, C, H, W] on the map, which it keeps.
torch::Tensor mapped_images(const std::shared_ptr<NpyArray>& array, Range range) {
  std::vector<int64_t> shape = array->shape();
  shape[0] = range.count;
  if (shape.size() == 3) shape.insert(shape.begin() + 1, 1);
  auto* const bytes = const_cast<uint8_t*>(array->row(range.first));
  return torch::from_blob(
      bytes, shape, [array](void*) {}, torch::kUInt8);
}

bool is_name(const std::string& text) {
  return !text.empty() && !is_digit(text[0]) &&
         std::ranges::all_of(text, [](char c) { return is_letter(c) || is_digit(c) || c == '_'; });
}

bool is_named_file(const std::string& text) {
  const size_t mark = text.find('=');
  return mark != std::string::npos && mark + 1 < text.size() && is_name(text.substr(0, mark));
}

// Numbers stay what they are, but images.
Column column_of(const std::string& name, const std::string& path) {
  auto array = std::make_shared<NpyArray>(path);
  const size_t dimensions = array->shape().size();
  const bool pixels = array->type() == NpyType::kUint8 && (dimensions == 3 || dimensions == 4);
  const auto type = pixels || array->is_real()        ? torch::kFloat32
                    : array->type() == NpyType::kBool ? torch::kBool
                                                      : torch::kInt64;
  Column column(std::move(array), name, type);
  column.pixels = pixels;
  if (pixels && dimensions == 3) column.info.shape.insert(column.info.shape.begin(), 1);
  return column;
}

std::vector<Column> read_columns(const std::vector<std::string>& named_files) {
  std::vector<Column> columns;
  for (const std::string& named_file : named_files) {
    const size_t mark = named_file.find('=');
    const std::string name = named_file.substr(0, mark);
    for (const Column& column : columns) {
      if (column.info.name == name)
        throw Error(ExitCode::kBadRecipe, "npy: arrays", cat("names ", quote(name), " twice"),
                    "give each input a name of its own");
    }
    columns.push_back(column_of(name, named_file.substr(mark + 1)));
    const NpyArray &first = *columns[0].array, &last = *columns.back().array;
    if (first.rows() == last.rows()) continue;
    throw Error(ExitCode::kBadData, last.path().string(),
                cat("has ", last.rows(), " samples; ", first.path().string(), " has ", first.rows()),
                "take all files from the same data");
  }
  return columns;
}

std::unique_ptr<Dataset> make_named_arrays(const DatasetRequest& request) {
  const Parameters& p = request.parameters;
  if (!p.text("inputs").empty())
    throw Error(ExitCode::kBadRecipe, "npy: arrays", "stands beside inputs", "give one of the two");
  check_augmentations("npy with several inputs", {}, request.augment);
  std::vector<Column> columns = read_columns(p.texts("arrays"));
  const Range range = range_of(p, *columns[0].array);
  Targets targets = read_targets(p, *columns[0].array, range);
  return std::make_unique<ArrayDataset>(std::move(columns), range, std::move(targets));
}

std::unique_ptr<Dataset> make_npy(const DatasetRequest& request) {
  const Parameters& p = request.parameters;
  if (!p.texts("arrays").empty()) return make_named_arrays(request);
  if (p.text("inputs").empty()) {
    throw Error(ExitCode::kBadRecipe, "npy: inputs", "names no file",
                "give a .npy file of samples, or several in arrays");
  }
  auto inputs = std::make_shared<NpyArray>(p.text("inputs"));
  const Range range = range_of(p, *inputs);
  Targets targets = read_targets(p, *inputs, range);
  const size_t dimensions = inputs->shape().size();
  if (inputs->type() == NpyType::kUint8 && (dimensions == 3 || dimensions == 4)) {
    return std::make_unique<ImageDataset>(ImageDataset::Content{.images = mapped_images(inputs, range),
                                                                .labels = std::move(targets.values),
                                                                .mapped = true,
                                                                .classes = targets.classes},
                                          request.augment);
  }
  check_augmentations("npy", {}, request.augment);  // only images can be changed
  std::vector<Column> columns = {Column(std::move(inputs), "", torch::kFloat32)};
  return std::make_unique<ArrayDataset>(std::move(columns), range, std::move(targets));
}

// Another file of samples, or images that are files.
std::unique_ptr<Dataset> make_unlabelled_like_npy(const UnlabelledRequest& request) {
  if (!request.like.info().inputs.empty())
    throw Error(ExitCode::kBadRecipe, "--data", "names one file, and samples have several inputs",
                "predict on validation data: --set data.validation.arrays=[…]");
  if (request.path.extension() != ".npy") return make_images_like_bytes(request);
  const ChoiceSpec spec = npy_row().spec;
  const Choice choice{"npy", {{"inputs", request.path.string()}}};
  const Parameters parameters(choice, spec);
  return make_npy({parameters, {}});
}

}  // namespace

DatasetRow npy_row() {
  return {{"npy",
           "Samples from NumPy's .npy files, which stay on disk until they are used: uint8 [N, H, W] or "
           "[N, C, H, W] are images, pixels ÷ 255; all else becomes float32.",
           {text_key("inputs", "File of the samples, the first dimension counting them."),
            list_key(
                KeyKind::kTextList, "arrays",
                "Several inputs of a sample in the place of inputs, for models that take them: [image=x.npy, "
                "mask=m.npy]. Integers and bool stay so; uint8 images become pixels ÷ 255.",
                std::vector<std::string>{})
                .with_form("name=file", "^[A-Za-z_][A-Za-z0-9_]*=.+$", is_named_file),
            text_key("targets",
                     "File of as many targets: integers are classes, floats [N] or [N, …, K] numbers to "
                     "predict; null: none."),
            integer_key("classes", "Classes of integer targets; null: the largest of the file and one.")
                .from(1, kMostClasses),
            integer_key("first", "The first sample to use, counted from 0.", 0).from(0),
            integer_key("limit", "Use so many samples from there; null: all.").from(1).in("samples")}},
          make_npy,
          {"flip", "crop_padding"},
          make_unlabelled_like_npy,
          "a .npy file, or images where the run's arrays are bytes of such"};
}

}  // namespace autotrain
