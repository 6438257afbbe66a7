#include "model/adapter.h"

#include <ATen/autocast_mode.h>

#include <map>

#include "autotrain/error.h"
#include "base/text.h"

namespace autotrain {
namespace {

constexpr const char *kWeight = ".weight", *kA = ".lora_A.weight", *kB = ".lora_B.weight";

torch::Tensor low_rank_sum(const torch::Tensor& weight, const torch::Tensor& a, const torch::Tensor& b,
                           double scale) {
  return at::addmm(weight, b, a, /*beta=*/1, /*alpha=*/scale);
}

// "fc" for "fc.weight"; another name as it is.
std::string stem_of(const std::string& weight) {
  const std::string_view ending = kWeight;
  return weight.ends_with(ending) ? weight.substr(0, weight.size() - ending.size()) : weight;
}

}  // namespace

torch::Tensor Adapter::effective() const {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  return low_rank_sum(weight, a, b, scale);
}

std::string name_of_a(const std::string& weight) {
  return stem_of(weight) + kA;
}

std::string name_of_b(const std::string& weight) {
  return stem_of(weight) + kB;
}

bool is_adapter_tensor(const std::string& name) {
  return name.ends_with(kA) || name.ends_with(kB);
}

std::vector<NamedTensor> merged(const std::vector<NamedTensor>& tensors, double scale) {
  const torch::NoGradGuard no_gradients;
  std::map<std::string, torch::Tensor> adapters;
  for (const NamedTensor& item : tensors) {
    if (is_adapter_tensor(item.name)) adapters.insert({item.name, item.tensor});
  }
  std::vector<NamedTensor> result;
  for (const NamedTensor& item : tensors) {
    if (is_adapter_tensor(item.name)) continue;
    const auto a = adapters.find(name_of_a(item.name)), b = adapters.find(name_of_b(item.name));
    const bool adapted = a != adapters.end() && b != adapters.end();
    result.push_back(
        {item.name, adapted ? low_rank_sum(item.tensor, a->second, b->second, scale) : item.tensor});
    if (!adapted) continue;
    adapters.erase(a);
    adapters.erase(b);
  }
  if (adapters.empty()) return result;
  throw Error(ExitCode::kBadData, adapters.begin()->first, "is half an adapter, or one of no weight",
              "use another checkpoint");
}

}  // namespace autotrain
