#pragma once

#include <torch/types.h>

#include <array>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "autotrain/batch.h"
#include "autotrain/recipe.h"
#include "base/enum_names.h"
#include "predict/row_writer.h"

namespace autotrain {

enum class PredictionFormat { kCsv, kJsonl, kNpy };

constexpr auto enum_names(PredictionFormat) {
  using F = PredictionFormat;
  return std::array{EnumName<F>{F::kCsv, "csv"}, EnumName<F>{F::kJsonl, "jsonl"},
                    EnumName<F>{F::kNpy, "npy"}};
}

/// The format that a file's ending names. @throws Error(kUsage) when it names none.
PredictionFormat format_of(const std::filesystem::path& path);

/// What a model's outputs say of a sample.
enum class PredictionKind {
  kClasses,    ///< logits of classes, one of which holds
  kLabels,     ///< logits of labels, each of which holds or not
  kNumbers,    ///< the numbers themselves
  kSequences,  ///< logits for every token of a sequence, whose loss is what is told
  kRaw,        ///< whatever they are, as they are
  kBoxes,      ///< of model yolo: the boxes that are found
};

/// How outputs are told.
struct PredictionRule {
  PredictionKind kind = PredictionKind::kNumbers;
  int64_t ignore_index = -100;  ///< kSequences: targets of this value count for nothing
};

/// The rule for a run with this loss.
/// @param output of one sample, [1, …]. @param raw whether outputs are wanted as they are.
/// @throws Error(kBadRecipe) when there is no rule for such outputs.
PredictionRule prediction_rule(const Choice& loss, const torch::Tensor& output, bool raw);

/// What is told of a batch, in main memory: [n, …] float32. Of kSequences [n, 2]: the mean cross-entropy of a
/// sequence's tokens, and how many count. Of kBoxes the likeliest, as best_boxes. Of all others the outputs.
/// @param output [n, …] of any type, on the batch's device. @throws Error(kBadData) when targets are needed
/// that the data do not have.
torch::Tensor told_of(const PredictionRule& rule, const torch::Tensor& output, const Batch& batch);

/// What a file of predictions holds.
struct RowOptions {
  PredictionFormat format = PredictionFormat::kCsv;
  int64_t samples = 0;                        ///< rows of the whole file
  int64_t top = 1;                            ///< kClasses: the likeliest so many
  bool probabilities = false;                 ///< kClasses: also the probability of every class
  std::vector<std::string> class_names = {};  ///< empty, or one for each class or label; of one label two

  /// The name of a sample's file; null: samples have none.
  std::function<std::string(int64_t sample)> sample_name = nullptr;
};

/// Writes what is told of samples as rows of a file: lines with the same columns as CSV and as JSON, or an
/// array.
class PredictionRows final : public RowWriter {
 public:
  /// @param told of one sample, [1, …]. @throws Error(kUsage) when options do not go with the kind.
  PredictionRows(PredictionKind kind, const torch::Tensor& told, RowOptions options);

  const std::vector<std::string>& columns() const override { return columns_; }

  std::string header() const override;
  std::string rows(int64_t first, const torch::Tensor& told) const override;

 private:
  struct Cell;
  using Row = std::vector<Cell>;

  void name_columns();
  void name_class_columns();
  void check_options() const;
  std::string name_of(int64_t number) const;
  std::string line(const Row& row) const;
  Row row_of(const float* told, const float* probabilities) const;
  Row classes_row(const float* logits, const float* probabilities) const;

  PredictionKind kind_;
  std::vector<int64_t> shape_;  // of what is told of one sample
  int64_t width_;               // numbers in it
  RowOptions o_;
  std::vector<std::string> columns_;
};

}  // namespace autotrain
