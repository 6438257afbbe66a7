#include <algorithm>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/text.h"
#include "data/balancing.h"
#include "data/datasets.h"
#include "data/finite.h"
#include "data/gather.h"
#include "data/image_dataset.h"
#include "data/npy_convert.h"
#include "data/npy_layout.h"
#include "data/npy_look.h"
#include "data/npy_targets.h"
#include "data/shape_text.h"

namespace autotrain {

DatasetRow npy_row();  // below

namespace {

// An input of every sample: rows of an array, and what they become.
struct Column {
  std::shared_ptr<NpyArray> array;
  InputInfo info;
  bool pixels = false;         // bytes that become numbers from 0 to 1
  bool channels_last = false;  // of the rows in the file
  bool may_be_infinite = false;

  Column(std::shared_ptr<NpyArray> from, const std::string& name, torch::ScalarType type)
      : array(std::move(from)), info{name, type, {array->shape().begin() + 1, array->shape().end()}} {
    info.is_number = info.shape.empty();
    if (info.is_number) info.shape = {1};
  }

  // The rows are [H, W, C]; samples become [C, H, W].
  void set_channels_last() {
    channels_last = true;
    std::rotate(info.shape.begin(), info.shape.end() - 1, info.shape.end());
  }

  // Rows from `first` on: [n, …].
  torch::Tensor rows(c10::ArrayRef<int64_t> indices, int64_t first) const {
    std::vector<int64_t> shape = {static_cast<int64_t>(indices.size())};
    shape.insert(shape.end(), array->shape().begin() + 1, array->shape().end());
    torch::Tensor made = torch::empty(shape, info.type);
    switch (info.type) {
      case torch::kInt64: fill(made.mutable_data_ptr<int64_t>(), indices, first); break;
      case torch::kBool: fill(made.mutable_data_ptr<bool>(), indices, first); break;
      default: fill(made.mutable_data_ptr<float>(), indices, first); break;
    }
    if (channels_last) made = made.permute({0, 3, 1, 2}).contiguous();
    shape.resize(1);
    shape.insert(shape.end(), info.shape.begin(), info.shape.end());
    made = made.view(shape);
    if (pixels) made.div_(255);
    return made;
  }

 private:
  template <class To>
  void fill(To* to, c10::ArrayRef<int64_t> indices, int64_t first) const {
    const int64_t size = array->row_size();
    for (const int64_t index : indices) {
      convert_elements(array->type(), array->row(first + index), size, to);
      if constexpr (std::is_same_v<To, float>) check(to, first + index);
      to += size;
    }
  }

  // A number that is none makes the weights of a whole run such.
  void check(const float* numbers, int64_t row) const {
    if (!array->is_real()) return;
    const int64_t size = array->row_size();
    const int64_t at = may_be_infinite ? first_nan(numbers, size) : first_not_finite(numbers, size);
    if (at == size) return;
    const int64_t offset = array->row_offset(row) + at * bytes_of(array->type());
    throw Error(ExitCode::kBadData, cat(array->path().string(), ": offset ", offset),
                cat("the number ", at, " of sample ", row, " is ", numbers[at], " as float32"),
                "leave the sample out (data.bad_samples: skip does), or write another number there");
  }
};

// Rows that are converted when they are asked for.
class ArrayDataset final : public Dataset, public Preloadable, public Classified {
 public:
  ArrayDataset(std::vector<Column> columns, NpyRange range, NpyTargets targets)
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
                     .classes = targets_.classes,
                     .input_is_number = columns_[0].info.is_number,
                     .target_is_number = targets_.is_number};
    for (const Column& column : columns_) {
      if (!column.info.name.empty()) info.inputs.push_back(column.info);
    }
    return info;
  }

  std::vector<int64_t> classes_of_samples() const override { return classes_in(targets_.values); }

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
  NpyRange range_;
  NpyTargets targets_;
};

// The bytes of the range as a tensor [count, C, H, W] on the map, which it keeps.
torch::Tensor mapped_images(const std::shared_ptr<NpyArray>& array, NpyRange range, bool channels_last) {
  std::vector<int64_t> shape = array->shape();
  shape[0] = range.count;
  if (shape.size() == 3) shape.insert(shape.begin() + 1, 1);
  auto* const bytes = const_cast<uint8_t*>(array->row(range.first));
  const torch::Tensor as_in_file = torch::from_blob(
      bytes, shape, [array](void*) {}, torch::kUInt8);
  return channels_last ? as_in_file.permute({0, 3, 1, 2}) : as_in_file;
}

// Where the key leaves it open, validation data have their channels where the training data have them.
std::string channels_key(const Parameters& own, const Parameters* training) {
  const std::string channels = own.text("channels");
  return channels == kLayoutAuto && training != nullptr ? training->text("channels") : channels;
}

void tell_channels_last(const NpyArray& array) {
  const std::vector<int64_t>& shape = array.shape();
  log::info("data", cat(array.path().string(), ": ", array.shape_in_words(),
                        " are images with their channels last: ", shape[3], " channels of ", shape[1], " × ",
                        shape[2], " (channels: first says otherwise)"));
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
Column column_of(const std::string& name, const std::string& path, const std::string& channels) {
  auto array = std::make_shared<NpyArray>(path);
  const size_t dimensions = array->shape().size();
  const bool pixels = array->type() == NpyType::kUint8 && (dimensions == 3 || dimensions == 4);
  const auto type = pixels || array->is_real()        ? torch::kFloat32
                    : array->type() == NpyType::kBool ? torch::kBool
                                                      : torch::kInt64;
  Column column(std::move(array), name, type);
  column.pixels = pixels;
  column.may_be_infinite = true;  // such as what masks add
  if (dimensions == 4 && channels == kLayoutLast) column.set_channels_last();
  if (pixels && dimensions == 3) column.info.shape.insert(column.info.shape.begin(), 1);
  return column;
}

std::vector<Column> read_columns(const std::vector<std::string>& named_files, const std::string& channels) {
  std::vector<Column> columns;
  for (const std::string& named_file : named_files) {
    const size_t mark = named_file.find('=');
    const std::string name = named_file.substr(0, mark);
    for (const Column& column : columns) {
      if (column.info.name == name)
        throw Error(ExitCode::kBadRecipe, "npy: arrays", cat("names ", quote(name), " twice"),
                    "give each input a name of its own");
    }
    columns.push_back(column_of(name, named_file.substr(mark + 1), channels));
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
  std::vector<Column> columns = read_columns(p.texts("arrays"), channels_key(p, request.training));
  const NpyRange range = npy_range(p, *columns[0].array);
  NpyTargets targets = read_npy_targets(request, *columns[0].array, range);
  return std::make_unique<ArrayDataset>(std::move(columns), range, std::move(targets));
}

// What moves the pixels of an image would leave the targets of places in it where they are.
void check_targets_of_places(const AugmentRecipe& augment, const torch::Tensor& targets) {
  if (!targets.defined() || targets.dim() < 3 || (!augment.flip && augment.crop_padding == 0)) return;
  throw Error(ExitCode::kBadRecipe, augment.flip ? "data.augment.flip" : "data.augment.crop_padding",
              cat("moves the pixels of images, and not their targets, which are ",
                  shape_text(targets.sizes().slice(1).vec()), " for each: masks, or boxes"),
              "remove it; write images and targets that are moved alike to the files");
}

std::unique_ptr<Dataset> make_npy(const DatasetRequest& request) {
  const Parameters& p = request.parameters;
  if (!p.texts("arrays").empty()) return make_named_arrays(request);
  if (p.text("inputs").empty()) {
    throw Error(ExitCode::kBadRecipe, "npy: inputs", "names no file",
                "give a .npy file of samples, or several in arrays");
  }
  auto inputs = std::make_shared<NpyArray>(p.text("inputs"));
  const NpyRange range = npy_range(p, *inputs);
  NpyTargets targets = read_npy_targets(request, *inputs, range);
  const size_t dimensions = inputs->shape().size();
  const bool channels_last = channels_are_last(*inputs, channels_key(p, request.training));
  if (channels_last) tell_channels_last(*inputs);
  if (inputs->type() == NpyType::kUint8 && (dimensions == 3 || dimensions == 4)) {
    check_targets_of_places(request.augment, targets.values);
    return std::make_unique<ImageDataset>(
        ImageDataset::Content{.images = mapped_images(inputs, range, channels_last),
                              .labels = std::move(targets.values),
                              .mapped = true,
                              .classes = targets.classes,
                              .target_is_number = targets.is_number},
        request.augment);
  }
  check_augmentations("npy", {}, request.augment);  // only images can be changed
  std::vector<Column> columns = {Column(std::move(inputs), "", torch::kFloat32)};
  if (channels_last) columns[0].set_channels_last();
  return std::make_unique<ArrayDataset>(std::move(columns), range, std::move(targets));
}

// Another file of samples, or images that are files.
std::unique_ptr<Dataset> make_unlabelled_like_npy(const UnlabelledRequest& request) {
  if (!request.like.info().inputs.empty())
    throw Error(ExitCode::kBadRecipe, "--data", "names one file, and samples have several inputs",
                "predict on validation data: --set data.validation.arrays=[…]");
  if (request.path.extension() != ".npy") return make_images_like_bytes(request);
  const ChoiceSpec spec = npy_row().spec;
  const Choice choice{
      "npy",
      {{"inputs", request.path.string()}, {"channels", channels_key(request.parameters, request.training)}}};
  const Parameters parameters(choice, spec);
  return make_npy({parameters, {}});
}

}  // namespace

DatasetRow npy_row() {
  return {
      {"npy",
       "Samples from NumPy's .npy files, which stay on disk until they are used: uint8 [N, H, W] or "
       "[N, C, H, W] are images, pixels ÷ 255; all else becomes float32.",
       {text_key("inputs", "File of the samples, the first dimension counting them."),
        list_key(
            KeyKind::kTextList, "arrays",
            "Several inputs of a sample in the place of inputs, for models that take them: [image=x.npy, "
            "mask=m.npy]. Integers and bool stay so; uint8 images become pixels ÷ 255.",
            std::vector<std::string>{})
            .with_form("name=file", "^[A-Za-z_][A-Za-z0-9_]*=.+$", is_named_file),
        word_key("channels",
                 "Where images [N, C, H, W] or [N, H, W, C] have their channels; auto: as the shape says, "
                 "of arrays first.",
                 {kLayoutAuto, kLayoutFirst, kLayoutLast}, kLayoutAuto),
        text_key("targets",
                 "File of as many targets, which are what the loss takes: classes [N], labels or numbers "
                 "[N] or [N, K]; where it does not say, integers are classes; null: none."),
        integer_key("classes",
                    "Classes of targets that are such; null: the largest of the file and one, of "
                    "validation data those of the training data.")
            .from(1, kMostClasses),
        integer_key("first", "The first sample to use, counted from 0.", 0).from(0),
        integer_key("limit", "Use so many samples from there; null: all.").from(1).in("samples")}},
      make_npy,
      {"flip", "crop_padding"},
      make_unlabelled_like_npy,
      "a .npy file, or images where the run's arrays are bytes of such",
      look_at_npy,
      {"channels"},
      "inputs"};
}

}  // namespace autotrain
