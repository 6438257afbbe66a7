#include "data/npy_targets.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "autotrain/error.h"
#include "base/text.h"
#include "base/units.h"
#include "data/finite.h"
#include "data/npy_convert.h"

namespace autotrain {
namespace {

using Kind = TargetUse::Kind;

constexpr int64_t kManyClasses = 1000, kFewOfMany = 100;  // as many of which one is seen are a mistake
constexpr int64_t kUsuallyIgnored = -100;                 // as in PyTorch, where the loss does not say

// The file's words for its shape and type: "[200, 4] uint8".
std::string described(const NpyArray& file) {
  return cat(file.shape_in_words(), " ", name_of(file.type()));
}

// Where the element number `at` of the file lies.
std::string place_of(const NpyArray& file, int64_t at) {
  return cat(file.path().string(), ": offset ", file.row_offset(0) + at * bytes_of(file.type()));
}

[[noreturn]] void fail(const NpyArray& file, const std::string& what, const std::string& cure) {
  throw Error(ExitCode::kBadData, file.path().string(), what, cure);
}

// Whether each row has one 1 and is 0 elsewhere.
bool is_one_hot(const NpyArray& file) {
  const int64_t size = file.row_size();
  if (file.shape().size() != 2 || size < 2) return false;
  bool only_such = true;
  int64_t ones = 0;
  for_each_element<double>(file, 0, file.rows(), [&](double value, int64_t at) {
    ones += value == 1 ? 1 : 0;
    only_such = value == 1 || value == 0;
    if (at % size == size - 1) only_such = only_such && ones == 1, ones = 0;
    return only_such;
  });
  return only_such;
}

[[noreturn]] void refuse_one_hot(const NpyArray& file) {
  fail(file,
       cat("the targets are one-hot, ", described(file),
           ": each row has one 1, and the loss takes the class's number"),
       "save array.argmax(1)");
}

bool all_whole(const NpyArray& file) {
  bool whole = true;
  for_each_element<double>(file, 0, file.rows(),
                           [&](double value, int64_t) { return whole = value == std::trunc(value); });
  return whole;
}

// ------------------------------------------------------------------ classes

// Whether a second dimension of as many may be positions of a sample, each with a class of its own.
bool may_be_positions(const NpyArray& file, const NpyArray& inputs) {
  return inputs.shape().size() > 1 && inputs.shape()[1] == file.shape()[1];
}

void check_shape_of_classes(const DatasetRequest& request, const NpyArray& file, const NpyArray& inputs) {
  if (file.row_size() == 1) return;
  const bool one = request.targets.one_a_sample;
  const bool one_each = one || (request.targets.kind == Kind::kClasses && !may_be_positions(file, inputs));
  if (one_each && is_one_hot(file)) refuse_one_hot(file);
  if (!one) return;
  fail(file,
       cat("the targets are ", described(file), ", ", format_count(file.row_size()),
           " for each sample; the model predicts one class for each sample"),
       cat("save one class for each sample, [", file.rows(),
           "]; masks, and labels for each position, need a model of your own that predicts as many "
           "(model.name: exported)"));
}

[[noreturn]] void refuse_real_classes(const NpyArray& file) {
  if (is_one_hot(file)) refuse_one_hot(file);
  if (file.row_size() > 1) {
    fail(
        file, cat("the targets are numbers, ", described(file), ", and the loss takes classes"),
        "save array.argmax(1) where they are probabilities of classes, or set loss.name: mean_squared_error");
  }
  if (all_whole(file)) {
    fail(file,
         cat("the targets are whole numbers saved as ", name_of(file.type()), ", and the loss takes classes"),
         "save array.astype('int64') where they are classes, or set loss.name: mean_squared_error");
  }
  fail(file,
       cat("the targets are numbers to be predicted, ", described(file), ", and the loss takes classes"),
       "set loss.name: mean_squared_error, or give the data integer targets");
}

// How many classes there may be, and who says so.
struct ClassBound {
  int64_t classes = kMostClasses;
  std::string of = "that there may be";
};

// Numbers that were never counted as classes, such as grey values or keys of a database.
void refuse_sparse(const NpyArray& file, const std::vector<bool>& seen) {
  const auto classes = std::ssize(seen), different = std::ranges::count(seen, true);
  if (file.row_size() > 1 || classes < kManyClasses || different * kFewOfMany > classes) return;
  fail(file,
       cat("the targets have ", different, different == 1 ? " value" : " different values",
           ", of which the largest is ", format_count(classes - 1), ": ", format_count(classes),
           " classes would be made"),
       cat("save numpy.unique(array, return_inverse=True)[1], or set classes: ", classes));
}

// Classes are counted over the whole file, so that every range of it has the same.
int64_t count_classes(const NpyArray& file, const ClassBound& bound, std::optional<int64_t> ignored) {
  std::vector<bool> seen;
  for_each_element<int64_t>(file, 0, file.rows(), [&](int64_t value, int64_t at) {
    if (value == ignored) return true;
    if (value >= 0 && value < bound.classes) {
      if (value >= std::ssize(seen)) seen.resize(static_cast<size_t>(value) + 1);
      seen[static_cast<size_t>(value)] = true;
      return true;
    }
    throw Error(ExitCode::kBadData, place_of(file, at),
                cat("the target ", value, " of sample ", at / file.row_size(), " is ",
                    value < 0 ? "negative" : cat("not below the ", bound.classes, " classes ", bound.of)),
                "targets are classes, counted from 0 (numpy.unique(array, return_inverse=True)[1]); one that "
                "counts for nothing is loss.ignore_index");
  });
  if (bound.classes == kMostClasses) refuse_sparse(file, seen);
  if (!seen.empty()) return std::ssize(seen);
  fail(file, cat("every target is ", *ignored, ", which the loss does not count"),
       "set loss.ignore_index to the value that marks what has no class");
}

// The number of classes of the run's training data; nothing where they are not known by such a file.
std::optional<ClassBound> bound_of_training(const DatasetRequest& request, const NpyArray& file) {
  if (request.training == nullptr || request.training->text("targets").empty()) return {};
  const std::string path = request.training->text("targets");
  const std::string of = cat("of the training data, ", path);
  if (const auto given = request.training->optional_integer("classes")) return ClassBound{*given, of};
  if (path == file.path().string()) return {};
  const NpyArray training(path);
  if (training.is_real()) return {};
  return ClassBound{count_classes(training, {}, ignored_class(request.targets)), of};
}

NpyTargets read_classes(const DatasetRequest& request, const NpyArray& file, const NpyArray& inputs,
                        NpyRange range) {
  if (file.is_real()) refuse_real_classes(file);
  check_shape_of_classes(request, file, inputs);
  const auto given = request.parameters.optional_integer("classes");
  const auto of_training = bound_of_training(request, file);
  const ClassBound bound = given ? ClassBound{*given} : of_training.value_or(ClassBound{});
  const int64_t counted = count_classes(file, bound, ignored_class(request.targets));
  std::vector<int64_t> shape = file.shape();
  shape[0] = range.count;
  if (request.targets.kind == Kind::kClasses && file.row_size() == 1) shape.resize(1);
  NpyTargets targets{torch::empty(shape, torch::kInt64), given || of_training ? bound.classes : counted};
  convert_elements(file.type(), file.row(range.first), targets.values.numel(),
                   targets.values.mutable_data_ptr<int64_t>());
  return targets;
}

// ------------------------------------------------------------------ numbers and labels

void check_shape_of_numbers(const DatasetRequest& request, const NpyArray& file) {
  if (!request.targets.one_a_sample || file.shape().size() < 3) return;
  fail(file,
       cat("the targets are ", described(file), ", and the model predicts a row of numbers for each sample"),
       cat("save array.reshape(", file.rows(),
           ", -1), or train a model of your own that predicts such (model.name: exported)"));
}

void check_finite(const NpyArray& file, const torch::Tensor& values, NpyRange range) {
  const auto* const numbers = values.const_data_ptr<float>();
  const int64_t at = first_not_finite(numbers, values.numel());
  if (at == values.numel()) return;
  const int64_t in_file = range.first * file.row_size() + at;
  throw Error(ExitCode::kBadData, place_of(file, in_file),
              cat("the target of sample ", in_file / file.row_size(), " is ", numbers[at]),
              "leave the sample out, or give it a number");
}

// [n] and [n, …] as float32 [n, K] and [n, …, K].
NpyTargets read_numbers(const DatasetRequest& request, const NpyArray& file, NpyRange range) {
  check_shape_of_numbers(request, file);
  std::vector<int64_t> shape = file.shape();
  shape[0] = range.count;
  const bool is_number = shape.size() == 1;
  if (is_number) shape.push_back(1);
  NpyTargets targets{torch::empty(shape, torch::kFloat32), shape.back(), is_number};
  convert_elements(file.type(), file.row(range.first), targets.values.numel(),
                   targets.values.mutable_data_ptr<float>());
  check_finite(file, targets.values, range);
  const auto given = request.parameters.optional_integer("classes");
  if (!given || *given == targets.classes) return targets;
  fail(file,
       cat("the targets are ", described(file), ", ", targets.classes,
           " numbers for each sample by the loss; classes is ", *given),
       "leave classes out, or set loss.name: cross_entropy");
}

NpyTargets read_labels(const DatasetRequest& request, const NpyArray& file, NpyRange range) {
  NpyTargets targets = read_numbers(request, file, range);
  const auto* const labels = targets.values.const_data_ptr<float>();
  for (int64_t i = 0; i < targets.values.numel(); ++i) {
    if (labels[i] >= 0 && labels[i] <= 1) continue;
    const int64_t in_file = range.first * file.row_size() + i;
    throw Error(
        ExitCode::kBadData, place_of(file, in_file),
        cat("the label of sample ", in_file / file.row_size(), " is ", labels[i], ", not from 0 to 1"),
        file.row_size() == 1 && !file.is_real()
            ? "set loss.name: cross_entropy where targets are classes, or save labels of 0 and 1"
            : "save 0 or 1 for every label");
  }
  return targets;
}

}  // namespace

NpyRange npy_range(const Parameters& p, const NpyArray& inputs) {
  const int64_t first = p.integer("first");
  if (first >= inputs.rows()) {
    throw Error(ExitCode::kBadData, inputs.path().string(),
                cat("has ", inputs.rows(), " samples; the first one asked for is ", first),
                "give a smaller data.….first");
  }
  const int64_t rest = inputs.rows() - first;
  return {first, std::min(rest, p.optional_integer("limit").value_or(rest))};
}

std::optional<int64_t> ignored_class(const TargetUse& use) {
  return use.kind == Kind::kUnknown ? kUsuallyIgnored : use.ignored;
}

NpyTargets read_npy_targets(const DatasetRequest& request, const NpyArray& inputs, NpyRange range) {
  const std::string path = request.parameters.text("targets");
  if (path.empty()) return {};
  const NpyArray file(path);
  if (file.rows() != inputs.rows()) {
    fail(file,
         cat("has ", file.rows(), " targets; ", inputs.path().string(), " has ", inputs.rows(), " samples"),
         "take both files from the same data");
  }
  switch (request.targets.kind) {
    case Kind::kClasses: return read_classes(request, file, inputs, range);
    case Kind::kLabels: return read_labels(request, file, range);
    case Kind::kNumbers: return read_numbers(request, file, range);
    case Kind::kUnknown: break;
  }
  return file.is_real() ? read_numbers(request, file, range) : read_classes(request, file, inputs, range);
}

}  // namespace autotrain
