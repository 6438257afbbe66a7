#include "trainer/evaluator.h"

#include <cmath>

#include "device/memory_phase.h"
#include "plan/scopes.h"

namespace autotrain {
void FigureSums::add(const std::string& name, const torch::Tensor& sum, const torch::Tensor& weight) {
  Sums& sums = sums_[name];
  const torch::Tensor s = sum.to(torch::kFloat64), w = weight.to(torch::kFloat64);
  sums.sum = sums.sum.defined() ? sums.sum + s : s;
  sums.weight = sums.weight.defined() ? sums.weight + w : w;
}

void FigureSums::add(const EvaluationTerms& terms) {
  add("loss", terms.loss.sum, terms.loss.weight);
  for (const MetricTerms& metric : terms.metrics) {
    add(metric.name, metric.sum, metric.weight);
    sums_[metric.name].exponential = metric.exponential;
  }
}

Figures FigureSums::figures() const {
  Figures figures;
  for (const auto& [name, sums] : sums_) {
    const double mean = sums.sum.item<double>() / sums.weight.item<double>();
    figures[name] = sums.exponential ? std::exp(mean) : mean;
  }
  return figures;
}

bool lower_is_better(const std::string& figure) {
  return figure == "loss" || figure == "perplexity" || figure.ends_with("_error") ||
         figure.ends_with("_loss");
}

std::vector<std::string> evaluation_names(const Workbench& bench) {
  const EvaluationMode mode(bench.task.module());
  Loader loader(*bench.validation, Stream(0, bench.validation->size(), /*shuffle=*/false),
                repeated({consecutive(0, 1)}), {.prefetch = 0, .channels_last = bench.loader.channels_last});
  const Batch batch = bench.device.upload(*loader.next());
  std::vector<std::string> names = {"loss"};
  for (const MetricTerms& metric :
       evaluate_batch(bench.task, batch, bench.step.options().precision).metrics) {
    names.push_back(metric.name);
  }
  return names;
}

std::optional<Figures> evaluate(const Workbench& bench, int64_t micro_batch,
                                const std::function<bool(int64_t)>& proceed) {
  const PhaseScope phase(MemoryPhase::kEvaluation);
  const EvaluationMode mode(bench.task.module());
  const Dataset& data = *bench.validation;
  Loader loader(data, Stream(0, data.size(), /*shuffle=*/false), one_pass(data, micro_batch), bench.loader);
  FigureSums sums;
  int64_t done = 0;
  while (const std::optional<Batch> batch = loader.next()) {
    sums.add(evaluate_batch(bench.task, bench.device.upload(*batch), bench.step.options().precision));
    done += batch->samples;
    if (!proceed(done)) return std::nullopt;
  }
  return sums.figures();
}

}  // namespace autotrain
