#include "plan/operation_trace.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "step/autocast.h"
#include "step/operator_scope.h"
#include "step/operator_values.h"

namespace autotrain {
namespace {

// A weighted sum over everything a sample became; weights vary so that reordered values show.
std::vector<double> figures(const torch::Tensor& result, int64_t samples) {
  const bool by_sample = result.defined() && result.is_floating_point() && result.dim() > 0 && samples > 0 &&
                         result.size(0) > 0 && result.size(0) % samples == 0 && !result.is_sparse();
  if (!by_sample) return {};
  const torch::Tensor rows = result.detach().to(torch::kFloat64).reshape({samples, -1});
  const torch::Tensor weights = at::arange(1, rows.size(1) + 1, rows.options()).sin();
  const torch::Tensor sums = rows.matmul(weights).to(torch::kCPU).contiguous();
  return {sums.const_data_ptr<double>(), sums.const_data_ptr<double>() + samples};
}

// The values that such an operation returns are whatever the memory held before.
bool leaves_uninitialised(std::string_view operation) {
  return operation.find("empty") != std::string_view::npos ||
         operation.find("resize") != std::string_view::npos;
}

// LibTorch's modules have no forward hooks in C++; its operations can be observed, and a parameter among
// an operation's inputs tells which module it belongs to.
struct Recording {
  std::unordered_map<const void*, std::string> owner_of_parameter;
  std::string last_module;
  int64_t samples = 0;
  std::string last_operation;
  int64_t depth = 0;      // operations call operations; only the outermost are what the model's code says
  bool measures = false;  // what measures is not measured
  std::vector<OperationTrace::Operation> operations;

  void start(const at::RecordFunction& function) {
    if (measures || depth++ > 0) return;
    last_operation = function.name();
    for (const c10::IValue& input : inputs_of(function)) {
      if (!input.isTensor() || !input.toTensor().defined()) continue;
      const auto owner = owner_of_parameter.find(input.toTensor().unsafeGetTensorImpl());
      if (owner != owner_of_parameter.end()) last_module = owner->second;
    }
  }

  void end(const at::RecordFunction& function) {
    if (measures || --depth > 0 || leaves_uninitialised(function.name())) return;
    measures = true;
    OperationTrace::Operation operation{function.name(), last_module, {}, 0};
    for (const c10::IValue& output : outputs_of(function)) {
      if (output.isTensor()) operation.samples = figures(output.toTensor(), samples);
      if (operation.samples.empty()) continue;
      operation.rows = output.toTensor().size(0);
      break;
    }
    operations.push_back(std::move(operation));
    measures = false;
  }
};

enum class Measure { kNothing, kSamples };

void record(Task& task, const Batch& batch, Precision precision, Measure measure, Recording& into) {
  const torch::AutoGradMode with_gradients(true);  // a loss may differentiate
  const AutocastScope autocast(batch.inputs.device().type(), precision);
  into.samples = measure == Measure::kSamples ? batch.samples : 0;
  for (const auto& parameter : task.module().named_parameters()) {
    into.owner_of_parameter.emplace(parameter.value().unsafeGetTensorImpl(), owner_of(parameter.key()));
  }
  const OperatorScope observing(into);
  task.loss(batch);
}

}  // namespace

std::string owner_of(const std::string& parameter) {
  const size_t dot = parameter.rfind('.');
  return dot == std::string::npos ? "the model" : parameter.substr(0, dot);
}

OperationTrace::OperationTrace(Task& task, const std::vector<Batch>& batches) {
  for (const Batch& batch : batches) {
    Recording part;
    record(task, batch, Precision::kFp32, Measure::kSamples, part);
    if (operations_.empty()) {
      operations_ = std::move(part.operations);
      continue;
    }
    operations_.resize(std::min(operations_.size(), part.operations.size()));
    for (size_t i = 0; i < operations_.size(); ++i) {
      std::vector<double>& joined = operations_[i].samples;
      const std::vector<double>& more = part.operations[i].samples;
      joined.insert(joined.end(), more.begin(), more.end());
      operations_[i].rows += part.operations[i].rows;
    }
  }
}

OperationPlace first_difference(const OperationTrace& a, const OperationTrace& b, double tolerance) {
  const size_t count = std::min(a.operations().size(), b.operations().size());
  for (size_t i = 0; i < count; ++i) {
    const auto& left = a.operations()[i];
    const auto& right = b.operations()[i];
    if (left.name != right.name) return {left.name, left.module};
    // A dimension that does not grow with the samples is another one: of features, say.
    if (left.samples.size() != right.samples.size() || left.rows != right.rows) continue;
    double size = 0, gap = 0;
    for (size_t j = 0; j < left.samples.size(); ++j) {
      size = std::max({size, std::abs(left.samples[j]), std::abs(right.samples[j])});
      gap = std::max(gap, std::abs(left.samples[j] - right.samples[j]));
    }
    if (gap > tolerance * size) return {left.name, left.module};
  }
  return {};
}

OperationPlace first_non_finite(Task& task, const Batch& batch, Precision precision) {
  Recording recording;
  record(task, batch, precision, Measure::kSamples, recording);
  for (const OperationTrace::Operation& operation : recording.operations) {
    const bool finite = std::all_of(operation.samples.begin(), operation.samples.end(),
                                    [](double figure) { return std::isfinite(figure); });
    if (!finite) return {operation.name, operation.module};
  }
  return {};
}

OperationPlace where_forward_throws(Task& task, const Batch& batch, Precision precision) {
  Recording recording;
  try {
    record(task, batch, precision, Measure::kNothing, recording);
  } catch (const std::exception&) {
    return {recording.last_operation, recording.last_module};
  }
  return {};
}

}  // namespace autotrain
