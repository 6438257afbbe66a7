#include "trainer/evaluator.h"

#include <cmath>

#include "device/memory_phase.h"

namespace autotrain {
namespace {

// Sums stay on the device; one read at the end.
struct Sums {
  torch::Tensor sum;
  torch::Tensor weight;
  bool exponential = false;

  void add(const torch::Tensor& more_sum, const torch::Tensor& more_weight) {
    const torch::Tensor s = more_sum.to(torch::kFloat64), w = more_weight.to(torch::kFloat64);
    sum = sum.defined() ? sum + s : s;
    weight = weight.defined() ? weight + w : w;
  }

  double value() const {
    const double mean = sum.item<double>() / weight.item<double>();
    return exponential ? std::exp(mean) : mean;
  }
};

// Evaluation mode until the scope ends.
class EvaluationMode {
 public:
  explicit EvaluationMode(torch::nn::Module& module) : module_(module) { module_.eval(); }
  ~EvaluationMode() { module_.train(); }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  torch::nn::Module& module_;
};

}  // namespace

bool lower_is_better(const std::string& figure) {
  return figure == "loss" || figure == "perplexity" || figure.ends_with("_error") ||
         figure.ends_with("_loss");
}

std::vector<std::string> evaluation_names(const Workbench& bench) {
  const EvaluationMode mode(bench.task.module());
  Loader loader(*bench.validation, Stream(0, bench.validation->size(), /*shuffle=*/false),
                repeated({consecutive(0, 1)}), {.prefetch = 0});
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
  std::map<std::string, Sums> sums;
  int64_t done = 0;
  while (const std::optional<Batch> batch = loader.next()) {
    const EvaluationTerms terms =
        evaluate_batch(bench.task, bench.device.upload(*batch), bench.step.options().precision);
    sums["loss"].add(terms.loss.sum, terms.loss.weight);
    for (const MetricTerms& metric : terms.metrics) {
      sums[metric.name].add(metric.sum, metric.weight);
      sums[metric.name].exponential = metric.exponential;
    }
    done += batch->samples;
    if (!proceed(done)) return std::nullopt;
  }
  Figures figures;
  for (const auto& [name, sum] : sums) figures[name] = sum.value();
  return figures;
}

}  // namespace autotrain
