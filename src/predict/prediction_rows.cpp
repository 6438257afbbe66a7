#include "predict/prediction_rows.h"

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <numeric>
#include <variant>

#include "autotrain/error.h"
#include "base/json.h"
#include "base/text.h"
#include "model/losses.h"
#include "model/metrics.h"
#include "model/yolo_metric.h"
#include "predict/box_rows.h"
#include "report/csv_file.h"

namespace autotrain {
namespace {

[[noreturn]] void fail_rule(const std::string& loss, const torch::Tensor& output, const std::string& why) {
  throw Error(ExitCode::kBadRecipe, "loss.name",
              cat("predictions of a run with loss ", loss, " are ", output.sizes(), " for a sample: ", why),
              "give --output a file ending in .npy, which holds the outputs as they are");
}

// The fewest digits that read back as the same float32.
std::string digits(float value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

// The numbers of the largest, in falling order; of equal ones the first comes first, as argmax has it.
// NaN counts as the largest, as there.
std::vector<int64_t> largest(const float* values, int64_t count, int64_t wanted) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  const auto before = [values](int64_t a, int64_t b) {
    const bool a_is_none = std::isnan(values[a]), b_is_none = std::isnan(values[b]);
    if (a_is_none != b_is_none) return a_is_none;
    if (!a_is_none && values[a] != values[b]) return values[a] > values[b];
    return a < b;
  };
  std::partial_sort(order.begin(), order.begin() + wanted, order.end(), before);
  order.resize(static_cast<size_t>(wanted));
  return order;
}

// The header of a .npy file of version 1.0: https://numpy.org/doc/stable/reference/generated/numpy.lib.format
std::string npy_header(const std::vector<int64_t>& shape) {
  constexpr size_t kAlignment = 64, kBeforeText = 10;
  std::string dimensions;
  for (const int64_t size : shape) dimensions += cat(size, ", ");
  std::string text = cat("{'descr': '<f4', 'fortran_order': False, 'shape': (", dimensions, "), }");
  const size_t used = kBeforeText + text.size() + 1;
  text += std::string((kAlignment - used % kAlignment) % kAlignment, ' ') + "\n";
  const auto length = static_cast<uint16_t>(text.size());
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(length & 0xff);
  header += static_cast<char>(length >> 8);
  return header + text;
}

static_assert(std::endian::native == std::endian::little, "arrays are written as memory has them");

}  // namespace

PredictionFormat format_of(const std::filesystem::path& path) {
  const std::string ending = path.extension().string();
  const auto format = ending.empty() ? std::nullopt : parse_enum<PredictionFormat>(ending.substr(1));
  if (format) return *format;
  throw Error(ExitCode::kUsage, "--output", quote(path.string()) + " has no known ending",
              "end it in .csv, .jsonl or .npy");
}

PredictionRule prediction_rule(const Choice& loss, const torch::Tensor& output, bool raw) {
  if (raw) return {.kind = PredictionKind::kRaw};
  const LossRow& row = find_loss(loss.name);
  if (row.finds_boxes) return {.kind = PredictionKind::kBoxes};
  if (!row.metric_options) fail_rule(loss.name, output, "nothing here turns them into rows");
  const MetricOptions options = row.metric_options(Parameters(loss, row.spec));
  switch (options.kind) {
    case TargetKind::kClasses:
      if (output.dim() == 2) return {.kind = PredictionKind::kClasses};
      if (output.dim() == 3)
        return {.kind = PredictionKind::kSequences, .ignore_index = options.ignore_index};
      fail_rule(loss.name, output, "classes have one dimension, those of sequences two");
    case TargetKind::kLabels:
      if (output.dim() == 2) return {.kind = PredictionKind::kLabels};
      fail_rule(loss.name, output, "labels have one dimension");
    case TargetKind::kNumbers: break;
  }
  return {.kind = PredictionKind::kNumbers};
}

torch::Tensor told_of(const PredictionRule& rule, const torch::Tensor& output, const Batch& batch) {
  if (rule.kind == PredictionKind::kBoxes)
    return best_boxes(output, kCandidateBoxes).to(torch::kCPU).contiguous();
  const torch::Tensor wide = output.to(torch::kFloat32);
  if (rule.kind != PredictionKind::kSequences) return wide.to(torch::kCPU).contiguous();
  if (!batch.targets.defined())
    throw Error(ExitCode::kBadData, "data", "has no targets, and the loss of a sequence needs them");
  const torch::Tensor target = batch.targets.reshape({-1});
  const torch::Tensor losses = at::cross_entropy_loss(flat_logits(wide, batch.targets), target, {},
                                                      at::Reduction::None, rule.ignore_index);
  const torch::Tensor sums = losses.view({batch.samples, -1}).sum(1, /*keepdim=*/false, torch::kFloat64);
  const torch::Tensor counted =
      (target != rule.ignore_index).view({batch.samples, -1}).sum(1, /*keepdim=*/false, torch::kFloat64);
  return at::stack({sums / counted, counted}, 1).to(torch::kCPU, torch::kFloat32).contiguous();
}

// One value of a row.
struct PredictionRows::Cell {
  std::variant<int64_t, float, std::string> value;

  std::string plain() const {
    if (const auto* const text = std::get_if<std::string>(&value)) return *text;
    if (const auto* const whole = std::get_if<int64_t>(&value)) return std::to_string(*whole);
    const float number = std::get<float>(value);
    return std::isfinite(number) ? digits(number) : "";
  }

  std::string json() const {
    if (const auto* const text = std::get_if<std::string>(&value)) return words_of_json(*text);
    const std::string number = plain();
    return number.empty() ? "null" : number;
  }
};

PredictionRows::PredictionRows(PredictionKind kind, const torch::Tensor& told, RowOptions options)
    : kind_(kind),
      shape_(told.sizes().slice(1).vec()),
      width_(told.numel() / told.size(0)),
      o_(std::move(options)) {
  check_options();
  // A label holds where the second of two classes does.
  const bool one_label = kind_ == PredictionKind::kLabels && width_ == 1;
  if (one_label && o_.class_names.size() == 2) o_.class_names.erase(o_.class_names.begin());
  if (std::ssize(o_.class_names) != width_) o_.class_names.clear();
  name_columns();
}

void PredictionRows::check_options() const {
  const bool classes = kind_ == PredictionKind::kClasses;
  if (!classes && (o_.top != 1 || o_.probabilities)) {
    const char* const option = o_.probabilities ? "--probabilities" : "--top";
    if (kind_ == PredictionKind::kRaw) {
      throw Error(ExitCode::kUsage, option,
                  "chooses columns of a table, and a .npy file holds the model's outputs as they are",
                  "leave it out, or end --output in .csv or .jsonl");
    }
    throw Error(ExitCode::kUsage, option, "is for rows of a run that tells classes apart", "leave it out");
  }
  if (classes && (o_.top < 1 || o_.top > width_)) {
    throw Error(ExitCode::kUsage, "--top", cat(o_.top, " of ", width_, " classes cannot be told"),
                cat("give a number from 1 to ", width_));
  }
}

// A class's name where it has one, else its number.
std::string PredictionRows::name_of(int64_t number) const {
  return o_.class_names.empty() ? std::to_string(number) : o_.class_names[static_cast<size_t>(number)];
}

void PredictionRows::name_class_columns() {
  for (int64_t rank = 1; rank <= o_.top; ++rank) {
    const std::string which = rank == 1 ? "" : cat("_", rank);
    columns_.push_back("class" + which);
    if (!o_.class_names.empty()) columns_.push_back("name" + which);
    columns_.push_back("probability" + which);
  }
  for (int64_t i = 0; o_.probabilities && i < width_; ++i) columns_.push_back("p_" + name_of(i));
}

void PredictionRows::name_columns() {
  columns_ = {"sample"};
  if (o_.sample_name) columns_.emplace_back("file");
  switch (kind_) {
    case PredictionKind::kClasses: return name_class_columns();
    case PredictionKind::kLabels:
      for (int64_t i = 0; i < width_; ++i) columns_.push_back("p_" + name_of(i));
      // "p_0" would be taken for the probability of 0.
      if (width_ == 1 && o_.class_names.empty()) columns_.back() = "probability";
      return;
    case PredictionKind::kNumbers:
      for (int64_t i = 0; i < width_; ++i) columns_.push_back(width_ == 1 ? "value" : cat("value_", i));
      return;
    case PredictionKind::kSequences:
      columns_.insert(columns_.end(), {"tokens", "loss", "perplexity"});
      return;
    case PredictionKind::kBoxes:  // BoxRows are theirs
    case PredictionKind::kRaw: columns_.clear();
  }
}

std::string PredictionRows::header() const {
  switch (o_.format) {
    case PredictionFormat::kCsv: return csv_line(columns_);
    case PredictionFormat::kJsonl: return "";
    case PredictionFormat::kNpy: break;
  }
  std::vector<int64_t> shape = {o_.samples};
  shape.insert(shape.end(), shape_.begin(), shape_.end());
  return npy_header(shape);
}

PredictionRows::Row PredictionRows::classes_row(const float* logits, const float* probabilities) const {
  Row row;
  const std::vector<int64_t> order = largest(logits, width_, o_.top);
  const bool none = std::isnan(logits[order.front()]);  // outputs that are no numbers tell no class
  const size_t cells_of_class = o_.class_names.empty() ? 1 : 2;
  for (const int64_t best : order) {
    if (none) {
      row.resize(row.size() + cells_of_class, {probabilities[best]});
    } else {
      row.push_back({best});
      if (!o_.class_names.empty()) row.push_back({name_of(best)});
    }
    row.push_back({probabilities[best]});
  }
  if (o_.probabilities) {
    for (int64_t i = 0; i < width_; ++i) row.push_back({probabilities[i]});
  }
  return row;
}

PredictionRows::Row PredictionRows::row_of(const float* told, const float* probabilities) const {
  if (kind_ == PredictionKind::kClasses) return classes_row(told, probabilities);
  if (kind_ == PredictionKind::kSequences) {
    return {{static_cast<int64_t>(told[1])}, {told[0]}, {std::exp(told[0])}};
  }
  const float* const values = kind_ == PredictionKind::kLabels ? probabilities : told;
  Row row;
  for (int64_t i = 0; i < width_; ++i) row.push_back({values[i]});
  return row;
}

std::string PredictionRows::line(const Row& row) const {
  std::vector<std::string> cells;
  for (size_t i = 0; i < row.size(); ++i) {
    cells.push_back(o_.format == PredictionFormat::kCsv ? row[i].plain()
                                                        : Cell{columns_[i]}.json() + ":" + row[i].json());
  }
  return o_.format == PredictionFormat::kCsv ? csv_line(cells) : "{" + join(cells, ",") + "}\n";
}

std::string PredictionRows::rows(int64_t first, const torch::Tensor& told) const {
  const auto* const numbers = told.const_data_ptr<float>();
  if (o_.format == PredictionFormat::kNpy)
    return {reinterpret_cast<const char*>(numbers), static_cast<size_t>(told.nbytes())};
  const torch::Tensor probabilities = kind_ == PredictionKind::kClasses  ? at::softmax(told, 1)
                                      : kind_ == PredictionKind::kLabels ? at::sigmoid(told)
                                                                         : told;
  const auto* const shares = probabilities.const_data_ptr<float>();
  std::string text;
  for (int64_t i = 0; i < told.size(0); ++i) {
    Row row = {{first + i}};
    if (o_.sample_name) row.emplace_back().value = o_.sample_name(first + i);
    for (Cell& cell : row_of(numbers + i * width_, shares + i * width_)) row.push_back(std::move(cell));
    text += line(row);
  }
  return text;
}

}  // namespace autotrain
