#include "autotrain/two_passes.h"

#include <torch/csrc/autograd/autograd.h>

#include "autotrain/error.h"
#include "base/text.h"

namespace autotrain {

LossTerms in_two_passes(Passes& passes, const std::function<torch::Tensor(const Batch& batch)>& embed,
                        const std::function<LossTerms(const torch::Tensor& embeddings)>& loss) {
  const std::vector<Batch>& batches = passes.batches();
  std::vector<torch::Tensor> parts;
  {
    const torch::NoGradGuard no_gradients;
    for (size_t i = 0; i < batches.size(); ++i) {
      passes.seed(i);
      parts.push_back(embed(batches[i]).to(torch::kFloat32));
      if (parts.back().dim() > 0 && parts.back().size(0) == batches[i].samples) continue;
      throw Error(ExitCode::kBrokenContract, "in_two_passes",
                  cat("embed gives ", parts.back().sizes(), " for ", batches[i].samples, " samples"),
                  "give a row for each sample: views of one sample side by side, as [n, views, …]");
    }
  }
  const torch::Tensor embeddings = torch::cat(parts).requires_grad_();
  LossTerms terms = loss(embeddings);
  const torch::Tensor gradient = torch::autograd::grad({terms.sum}, {embeddings}).front();
  terms.sum = terms.sum.detach();
  for (NamedTensor& part : terms.parts) part.tensor = part.tensor.detach();
  for (size_t i = 0, done = 0; i < batches.size(); done += static_cast<size_t>(batches[i++].samples)) {
    passes.seed(i);
    passes.backward(embed(batches[i]), gradient.narrow(0, static_cast<int64_t>(done), batches[i].samples));
  }
  return terms;
}

}  // namespace autotrain
