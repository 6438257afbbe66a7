#include "autotrain/two_passes.h"

#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <utility>

#include "autotrain/error.h"
#include "base/text.h"
#include "step/graph_leaves.h"
#include "step/whole_passes.h"

namespace autotrain {
namespace {

using Embed = std::function<torch::Tensor(const Batch& batch)>;
using LossOfAll = std::function<LossTerms(const torch::Tensor& embeddings)>;

// float32 at least: embeddings of half a precision are compared in it.
torch::Tensor widened(const torch::Tensor& rows) {
  return rows.scalar_type() == torch::kFloat64 ? rows : rows.to(torch::kFloat32);
}

// With the random numbers of the i-th batch.
torch::Tensor embedded(Passes& passes, size_t i, const Embed& embed) {
  const Batch& batch = passes.batches()[i];
  passes.seed(i);
  const torch::Tensor rows = widened(embed(batch));
  if (rows.dim() > 0 && rows.size(0) == batch.samples) return rows;
  throw Error(ExitCode::kBrokenContract, "in_two_passes",
              cat("embed gives ", rows.sizes(), " for ", batch.samples, " samples"),
              "give a row for each sample: views of one sample side by side, as [n, views, …]");
}

std::vector<int64_t> versions_of(const Batch& batch) {
  std::vector<int64_t> versions;
  for (const torch::Tensor& tensor : batch.tensors())
    versions.push_back(tensor.is_inference() ? 0 : static_cast<int64_t>(tensor._version()));
  return versions;
}

// Each batch is embedded twice, so it must be the same both times.
std::vector<torch::Tensor> embedded_without_graph(Passes& passes, const Embed& embed) {
  const torch::NoGradGuard no_gradients;
  std::vector<torch::Tensor> parts;
  for (size_t i = 0; i < passes.batches().size(); ++i) {
    const std::vector<int64_t> before = versions_of(passes.batches()[i]);
    parts.push_back(embedded(passes, i, embed));
    if (versions_of(passes.batches()[i]) == before) continue;
    throw Error(ExitCode::kBrokenContract, "in_two_passes",
                "embed changes its batch in place, and embeds each batch twice",
                "make another tensor of it: batch.inputs.div(2) in the place of div_(2)");
  }
  return parts;
}

LossTerms without_graph(LossTerms terms) {
  terms.sum = terms.sum.detach();
  for (NamedTensor& part : terms.parts) part.tensor = part.tensor.detach();
  return terms;
}

// Of one batch nothing has to be embedded again.
LossTerms in_one_pass(WholePasses& passes, const Embed& embed, const LossOfAll& loss) {
  const torch::Tensor embeddings = embedded(passes, 0, embed);
  passes.seed_loss();
  LossTerms terms = loss(embeddings);
  passes.backward(terms.sum);
  return without_graph(std::move(terms));
}

// Whether the loss learns by itself, too: a temperature, prototypes, a last layer.
bool reaches_another_leaf(const torch::Tensor& sum, const torch::Tensor& leaf) {
  return std::ranges::any_of(graph_leaves(sum),
                             [&](const torch::Tensor& each) { return !each.is_same(leaf); });
}

LossTerms over_all(WholePasses& passes, const Embed& embed, const LossOfAll& loss) {
  std::vector<torch::Tensor> parts = embedded_without_graph(passes, embed);
  at::autocast::clear_cache();  // of weights that were cast without a graph
  const WholeBatch whole = passes.gather(std::move(parts));
  const torch::Tensor embeddings = whole.embeddings.requires_grad_();
  passes.seed_loss();
  LossTerms terms = loss(embeddings);
  const bool has_parameters = reaches_another_leaf(terms.sum, embeddings);
  const torch::Tensor gradient =
      torch::autograd::grad({terms.sum}, {embeddings}, {}, /*retain_graph=*/has_parameters).front();
  if (has_parameters) passes.backward_of_loss(terms.sum);
  terms = without_graph(std::move(terms));
  int64_t row = whole.first;
  for (size_t i = 0; i < passes.batches().size(); ++i) {
    const int64_t samples = passes.batches()[i].samples;
    passes.backward_of(i, embedded(passes, i, embed), gradient.narrow(0, row, samples));
    row += samples;
  }
  return terms;
}

// Passes that are no training step's own, in which all is here.
class AllHere final : public WholePasses {
 public:
  explicit AllHere(Passes& passes) : passes_(passes) {}
  const std::vector<Batch>& batches() const override { return passes_.batches(); }
  void seed(size_t i) override { passes_.seed(i); }
  void backward(const torch::Tensor& sum, bool keep_graph) override { passes_.backward(sum, keep_graph); }
  void backward(const torch::Tensor& outputs, const torch::Tensor& gradient) override {
    passes_.backward(outputs, gradient);
  }
  bool one_batch() const override { return batches().size() == 1; }
  void seed_loss() override {}
  WholeBatch gather(std::vector<torch::Tensor> parts) override { return {torch::cat(parts)}; }
  void backward_of_loss(const torch::Tensor& sum) override { passes_.backward(sum); }
  void backward_of(size_t, const torch::Tensor& outputs, const torch::Tensor& gradient) override {
    passes_.backward(outputs, gradient);
  }

 private:
  Passes& passes_;
};

LossTerms in_passes(WholePasses& passes, const Embed& embed, const LossOfAll& loss) {
  return passes.one_batch() ? in_one_pass(passes, embed, loss) : over_all(passes, embed, loss);
}

}  // namespace

LossTerms in_two_passes(Passes& passes, const Embed& embed, const LossOfAll& loss) {
  if (auto* const whole = dynamic_cast<WholePasses*>(&passes)) return in_passes(*whole, embed, loss);
  AllHere all(passes);
  return in_passes(all, embed, loss);
}

}  // namespace autotrain
