#include "trainer/evaluator.h"

#include <algorithm>

#include "autotrain/error.h"
#include "base/text.h"
#include "device/memory_phase.h"
#include "plan/scopes.h"
#include "trainer/users_code.h"

namespace autotrain {
namespace {

void add_to(torch::Tensor& sum, const torch::Tensor& term) {
  const torch::Tensor wide = term.to(torch::kFloat64);
  sum = sum.defined() ? sum + wide : wide;
}

// The rows of all batches below each other.
MetricState joined(const MetricState& sums, const std::vector<std::vector<torch::Tensor>>& rows) {
  MetricState whole{.sums = sums.sums};
  for (size_t i = 0; !rows.empty() && i < rows[0].size(); ++i) {
    std::vector<torch::Tensor> parts;
    for (const auto& batch : rows) parts.push_back(batch.at(i));
    whole.rows.push_back(at::cat(parts));
  }
  return whole;
}

[[noreturn]] void fail_evaluate(const std::string& what, const std::string& hint) {
  throw Error(ExitCode::kBrokenContract, "Task::evaluate", what, hint);
}

void add_figure(Evaluation& found, const Figure& figure) {
  if (!found.figures.emplace(figure.name, figure.value).second) {
    fail_evaluate("gives two figures the name " + quote(figure.name), "rename one of them");
  }
  found.kinds[figure.name] = figure.kind;
}

void add_table(Evaluation& found, FigureTable table) {
  if (std::ranges::find(found.tables, table.name, &FigureTable::name) != found.tables.end()) {
    fail_evaluate("gives two tables the name " + quote(table.name), "rename one of them");
  }
  found.tables.push_back(std::move(table));
}

}  // namespace

void EvaluationSums::add(Gathered& gathered, const MetricState& state) {
  if (state.empty()) return;  // the metric does not apply to this batch
  std::vector<torch::Tensor>& sums = gathered.sums.sums;
  if (sums.empty()) sums.resize(state.sums.size());
  if (sums.size() != state.sums.size()) {
    fail_evaluate(cat("gives a metric ", state.sums.size(), " sums, and gave it ", sums.size(), " before"),
                  "give every batch the same ones");
  }
  for (size_t i = 0; i < sums.size(); ++i) add_to(sums[i], state.sums[i]);
  if (state.rows.empty()) return;
  if (!gathered.rows.empty() && gathered.rows[0].size() != state.rows.size()) {
    fail_evaluate(
        cat("gives a metric ", state.rows.size(), " rows, and gave it ", gathered.rows[0].size(), " before"),
        "give every batch the same ones");
  }
  std::vector<torch::Tensor>& rows = gathered.rows.emplace_back();
  for (const torch::Tensor& part : state.rows) rows.push_back(part.to(torch::kCPU));
}

void EvaluationSums::add(const EvaluationTerms& terms) {
  add_to(loss_sum_, terms.loss.sum);
  add_to(loss_weight_, terms.loss.weight);
  if (batches_++ == 0) {
    for (const Measured& measured : terms.metrics) metrics_.push_back({measured.metric, {}, {}});
  }
  if (terms.metrics.size() != metrics_.size()) {
    fail_evaluate(
        cat("measures ", terms.metrics.size(), " metrics, and measured ", metrics_.size(), " before"),
        "measure the same ones of every batch; an empty state leaves one out");
  }
  for (size_t i = 0; i < metrics_.size(); ++i) add(metrics_[i], terms.metrics[i].state);
}

Evaluation EvaluationSums::result() const {
  Evaluation found;
  add_figure(found, {"loss", loss_sum_.item<double>() / loss_weight_.item<double>(), {}});
  for (const Gathered& gathered : metrics_) {
    const MetricState whole = joined(gathered.sums, gathered.rows);
    if (whole.empty()) continue;
    const Metric& metric = *gathered.metric;
    for (const Figure& figure : call_user("Metric::figures", [&] { return metric.figures(whole); }))
      add_figure(found, figure);
    for (FigureTable& table : call_user("Metric::tables", [&] { return metric.tables(whole); }))
      add_table(found, std::move(table));
  }
  return found;
}

FigureKinds evaluation_kinds(Workbench& bench) {
  const EvaluationMode mode(bench.task->module());
  Loader loader(*bench.data.validation, Stream(0, bench.data.validation->size(), /*shuffle=*/false),
                repeated({consecutive(0, 1)}), {.prefetch = 0, .channels_last = bench.loader.channels_last});
  const Batch batch = bench.device->upload(*loader.next());
  EvaluationSums sums;
  sums.add(evaluate_batch(*bench.task, batch, bench.step.options().precision));
  return sums.result().kinds;
}

std::optional<Evaluation> evaluate(Workbench& bench, int64_t micro_batch,
                                   const std::function<bool(int64_t)>& proceed) {
  const PhaseScope phase(MemoryPhase::kEvaluation);
  const EvaluationMode mode(bench.task->module());
  const Dataset& data = *bench.data.validation;
  Loader loader(data, Stream(0, data.size(), /*shuffle=*/false), one_pass(data, micro_batch), bench.loader);
  EvaluationSums sums;
  int64_t done = 0;
  while (const std::optional<Batch> batch = loader.next()) {
    sums.add(evaluate_batch(*bench.task, bench.device->upload(*batch), bench.step.options().precision));
    done += batch->samples;
    if (!proceed(done)) return std::nullopt;
  }
  return sums.result();
}

}  // namespace autotrain
