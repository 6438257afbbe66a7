#pragma once

#include <torch/types.h>

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "device/work_recorder.h"

namespace autotrain {

/// What a step has recorded, and for what each recording holds: kernels with addresses and host numbers in
/// them are replayed only where all of these are the same again.
class Recordings {
 public:
  /// Of micro-batches, more than a plan has. Each takes memory and a recording for every kind of statistics,
  /// so others are launched.
  static constexpr size_t kMostShapes = 4;

  explicit Recordings(std::unique_ptr<WorkRecorder> recorder) : recorder_(std::move(recorder)) {}

  /// Forward and backward pass of one micro-batch.
  struct Pass {
    size_t batch = 0;        ///< number of the fixed place where the micro-batch lies
    double loss_factor = 1;  ///< as in StepOptions
    bool norms = false;      ///< whether the gradient's norm is taken behind it
    bool preconditioned = false;
    std::string switches = {};  ///< a digit for each parameter that learns and each part that trains
    std::unique_ptr<RecordedWork> forward = {}, backward = {};
    std::string reached = {};  ///< as FlatGradients tells it

    auto key() const { return std::tuple(batch, loss_factor, norms, preconditioned, switches); }
  };

  /// From the sum over a window to the new weights.
  struct Update {
    bool skipped = false;  ///< whatever the gradients are
    double loss_factor = 1;
    double average = 0;  ///< by which averages of weights move
    bool norms = false, preconditioned = false;
    std::string reached = {};
    std::vector<bool> turns = {};  ///< of each parameter, whether the optimizer may update it
    std::unique_ptr<RecordedWork> work = {};
    torch::Tensor figures = {};  ///< as PendingUpdate takes them, new after each replay

    auto key() const {
      return std::tuple(skipped, loss_factor, average, norms, preconditioned, reached, turns);
    }
  };

  /// The recording for `wanted`; null: none was made.
  const Pass* find(const Pass& wanted) const { return find_in(passes_, wanted); }
  const Update* find(const Update& wanted) const { return find_in(updates_, wanted); }

  /// Keeps what was recorded.
  const Pass& keep(Pass pass) { return keep_in(passes_, std::move(pass)); }
  const Update& keep(Update update) { return keep_in(updates_, std::move(update)); }

  WorkRecorder& recorder() { return *recorder_; }

 private:
  // Shapes and statistics make a dozen at most, changing batches and skipped windows a few; where there are
  // more, the oldest go.
  static constexpr size_t kMost = 16;

  template <class Row>
  static const Row* find_in(const std::vector<std::unique_ptr<Row>>& rows, const Row& wanted) {
    for (const auto& row : rows) {
      if (row->key() == wanted.key()) return row.get();
    }
    return nullptr;
  }

  template <class Row>
  static const Row& keep_in(std::vector<std::unique_ptr<Row>>& rows, Row row) {
    if (rows.size() == kMost) rows.erase(rows.begin());
    return *rows.emplace_back(std::make_unique<Row>(std::move(row)));
  }

  std::unique_ptr<WorkRecorder> recorder_;
  std::vector<std::unique_ptr<Pass>> passes_;
  std::vector<std::unique_ptr<Update>> updates_;
};

}  // namespace autotrain
