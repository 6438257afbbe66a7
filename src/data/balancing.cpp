#include "data/balancing.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/files.h"
#include "base/text.h"
#include "base/units.h"
#include "data/batches.h"
#include "data/names.h"
#include "data/npy_convert.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

constexpr const char *kByClasses = "classes", *kByWeights = "weights";

[[noreturn]] void refuse(const std::string& what, const std::string& cure) {
  throw Error(ExitCode::kBadRecipe, "data.train.balance", what, cure);
}

// ------------------------------------------------------------------ weights

void check_weight(const std::string& where, double weight) {
  if (std::isfinite(weight) && weight >= 0) return;
  throw Error(ExitCode::kBadData, where, cat("the weight ", weight, " is not a finite number from 0 on"),
              "give each sample a weight; 0 leaves it out");
}

std::vector<double> weights_in_array(const std::string& path) {
  const NpyArray file(path);
  if (file.row_size() != 1)
    throw Error(ExitCode::kBadData, path,
                cat("is ", file.shape_in_words(), ", not one number for each sample"),
                "save one weight for each, [N]");
  std::vector<double> weights(static_cast<size_t>(file.rows()));
  convert_elements(file.type(), file.row(0), file.rows(), weights.data());
  for (size_t i = 0; i < weights.size(); ++i) check_weight(cat(path, ": sample ", i), weights[i]);
  return weights;
}

std::vector<double> weights_in_text(const std::string& path) {
  std::vector<double> weights;
  int64_t number = 0;
  for_each_line(path, [&](std::string_view line) {
    if (++number == 1) line = without_byte_order_mark(line);
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
    double weight = 0;
    if (!parse_real(line, weight)) {
      throw Error(ExitCode::kBadData, cat(path, ":", number),
                  cat(quote(std::string(line)), " is not a number"),
                  "give one weight a line and nothing else, in the order of the samples");
    }
    check_weight(cat(path, ":", number), weight);
    weights.push_back(weight);
  });
  return weights;
}

std::vector<double> read_weights(const std::string& path, int64_t samples) {
  std::vector<double> weights =
      fs::path(path).extension() == ".npy" ? weights_in_array(path) : weights_in_text(path);
  if (std::ssize(weights) == samples) return weights;
  throw Error(ExitCode::kBadData, path,
              cat("has ", format_count(std::ssize(weights)), " weights; the training data have ",
                  format_count(samples), " samples"),
              "give one weight for each sample that is read, in their order");
}

void check_sum(const std::string& source, const std::vector<double>& weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (sum > 0 && std::isfinite(sum)) return;
  throw Error(ExitCode::kBadData, source, sum > 0 ? "the weights have no finite sum" : "every weight is 0",
              "give samples a weight above 0");
}

void tell_weights(const std::string& source, const std::vector<double>& weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  const auto times = [&](double weight) {
    return brief(weight / sum * static_cast<double>(weights.size()), 3);
  };
  const auto none = std::ranges::count(weights, 0.0);
  log::info("data", cat("balanced by ", source, ": an epoch sees a sample ", times(std::ranges::min(weights)),
                        " to ", times(std::ranges::max(weights)), " times",
                        none > 0 ? cat(", ", format_count(none), " never") : ""));
}

// ------------------------------------------------------------------ classes

// Whether each is 0 or 1.
bool are_labels(const torch::Tensor& targets) {
  return targets.eq(0).logical_or(targets.eq(1)).all().item<bool>();
}

std::vector<int64_t> classes_of(const Dataset& data, std::optional<int64_t> ignored) {
  const auto* const classified = dynamic_cast<const Classified*>(&data);
  std::vector<int64_t> classes =
      classified == nullptr ? std::vector<int64_t>() : classified->classes_of_samples();
  if (classes.empty()) {
    refuse("is classes, and the samples have no single class each that this data set knows",
           "set balance: weights, with a weight for each sample in the file that the key weights names");
  }
  for (int64_t& c : classes) {
    if (c == ignored || c < 0) c = -1;
  }
  if (std::ranges::max(classes) >= 0) return classes;
  refuse("is classes, and no sample has a class that counts", "check the targets and loss.ignore_index");
}

void tell_classes(const Dataset& data, const std::vector<int64_t>& classes) {
  constexpr size_t kShown = 12;
  std::vector<int64_t> samples(static_cast<size_t>(std::ranges::max(classes)) + 1);
  for (const int64_t c : classes) {
    if (c >= 0) ++samples[static_cast<size_t>(c)];
  }
  const auto present = std::ranges::count_if(samples, [](int64_t n) { return n > 0; });
  const std::vector<std::string> names = class_names_in(data);
  const double each = static_cast<double>(classes.size()) / static_cast<double>(present);
  std::vector<std::string> words;
  for (size_t c = 0; c < samples.size() && words.size() < kShown; ++c) {
    if (samples[c] == 0) continue;
    words.push_back(cat(c < names.size() ? names[c] : std::to_string(c), " has ", format_count(samples[c]),
                        ", each ", brief(each / static_cast<double>(samples[c]), 3), " times"));
  }
  if (present > std::ssize(words)) words.push_back(cat("and ", present - std::ssize(words), " more"));
  log::info("data", cat("balanced by classes: an epoch sees each of ", present, " about ", brief(each, 6),
                        " times: ", join(words, "; ")));
}

// ------------------------------------------------------------------ keys

// @param own whether the data have weights of their own, as a table may.
void check_source(const std::string& balance, const std::string& path, bool own, bool table) {
  const bool file = !path.empty();
  if (file && own) refuse("has two sources: weights and weight_column", "leave one of them out");
  if ((file || own) == (balance == kByWeights)) return;
  const std::string is = cat("is ", balance.empty() ? "null" : balance);
  if (file) refuse(is + ", and the key weights names a file", "set balance: weights beside weights: FILE");
  if (own) refuse(is + ", and weight_column names a column", "set balance: weights beside weight_column");
  refuse(is + ", and the key weights names no file",
         cat("set balance: weights beside weights: FILE", table ? ", or beside weight_column: COLUMN" : ""));
}

}  // namespace

std::vector<KeySpec> balance_keys() {
  return {
      word_key("balance",
               "How often an epoch of training sees a sample, of as many in all as there are: classes: each "
               "class alike; weights: as the file in weights says, or a table's weight_column; null: each "
               "once.",
               {kByClasses, kByWeights}),
      text_key("weights",
               "File of one number for each sample, .npy or a line each, for balance: weights; null: none.")};
}

std::shared_ptr<const Balance> balance_of(const Parameters& parameters, const Dataset& data,
                                          std::optional<int64_t> ignored, uint64_t seed) {
  const std::string balance = parameters.text("balance"), path = parameters.text("weights");
  const auto* const weighted = dynamic_cast<const Weighted*>(&data);
  const bool own = weighted != nullptr && !weighted->weights_of_samples().empty();
  check_source(balance, path, own, weighted != nullptr);
  if (balance.empty()) return nullptr;
  if (balance == kByWeights) {
    const std::string source = own ? weighted->source_of_weights() : path;
    const std::vector<double> weights =
        own ? weighted->weights_of_samples() : read_weights(path, data.size());
    check_sum(source, weights);
    tell_weights(source, weights);
    return std::make_shared<Balance>(weights, std::vector<int64_t>(weights.size()), seed);
  }
  const std::vector<int64_t> classes = classes_of(data, ignored);
  tell_classes(data, classes);
  return std::make_shared<Balance>(weights_by_class(classes), classes, seed);
}

std::vector<int64_t> classes_in(const torch::Tensor& targets) {
  if (!targets.defined() || targets.numel() != targets.size(0)) return {};
  if (targets.scalar_type() != torch::kInt64 && !are_labels(targets)) return {};
  const torch::Tensor dense = targets.to(torch::kInt64).contiguous();
  const auto* const classes = dense.const_data_ptr<int64_t>();
  return {classes, classes + dense.numel()};
}

std::vector<int64_t> classes_by_reading(const Dataset& data) {
  constexpr int64_t kAtOnce = 1024;
  std::vector<int64_t> classes;
  bool all = true;
  for_each_batch(data, kAtOnce, [&](const Batch& batch) {
    const std::vector<int64_t> some = classes_in(batch.targets);
    classes.insert(classes.end(), some.begin(), some.end());
    return all = !some.empty();
  });
  return all ? classes : std::vector<int64_t>();
}

}  // namespace autotrain
