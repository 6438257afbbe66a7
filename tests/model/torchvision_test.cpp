// Driven by tests/interop/interop_test.py, which makes the files; alone it has nothing to compare.
#include <cstdlib>

#include "checkpoint/safetensors.h"
#include "model/models.h"
#include "state/snapshot.h"
#include "support/support.h"

namespace autotrain {
namespace {

TEST(Torchvision, AResNet18GivesTheSameLogits) {
  const char* const folder = std::getenv("AUTOTRAIN_TORCHVISION");
  if (folder == nullptr) GTEST_SKIP() << "run by interop_test.py";
  const std::filesystem::path path = folder;
  const auto expected = read_safetensors(path / "expected.safetensors");
  torch::Tensor inputs, logits;
  for (const NamedTensor& item : expected) (item.name == "inputs" ? inputs : logits) = item.tensor;
  const torch::NoGradGuard no_gradients;
  auto net = make_model({"resnet18", {}}, {{3, 64, 64}, 10, 0});
  read_safetensors_into(path / "weights.safetensors", model_tensors(*net), "");
  net->eval();
  const torch::Tensor ours = net->forward(inputs);
  EXPECT_LT((ours - logits).abs().max().item<double>(), 1e-5 * logits.abs().max().item<double>());
}

}  // namespace
}  // namespace autotrain
