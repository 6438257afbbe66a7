#include "autotrain/operator_counts.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>

#include "base/clock.h"
#include "base/text.h"
#include "measure/weight_uses.h"
#include "model/operator_products.h"
#include "step/operator_scope.h"
#include "step/operator_values.h"

namespace autotrain {
namespace {

using Tensors = std::vector<torch::Tensor>;

const void* memory_of(const torch::Tensor& tensor) {
  return tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
}

// The parameters of a module by where they lie, because they are often seen through a view.
class Weights {
 public:
  struct Weight {
    std::string name, module;  // the first ones, where it has several
    torch::Tensor tensor;
  };

  explicit Weights(const torch::nn::Module& module) {
    for (const auto& item : module.named_parameters()) {
      const torch::Tensor tensor = item.value().detach();
      if (!tensor.has_storage() || tensor.nbytes() == 0) continue;
      const size_t dot = item.key().rfind('.');
      at_.try_emplace(address_of(tensor),
                      Weight{item.key(), dot == std::string::npos ? "" : item.key().substr(0, dot), tensor});
    }
  }

  // Notes what autocast makes of a weight in another type, of which products see nothing else.
  void add_cast(const Weight& weight, const torch::Tensor& cast) {
    const auto memory = cast.storage().getWeakStorageImpl();
    casts_.insert_or_assign(memory_of(cast), std::pair(memory, &weight));
  }

  // The one that the tensor is a copy of in another type; null: none.
  const Weight* find_cast(const torch::Tensor& tensor) const {
    const auto found = casts_.find(memory_of(tensor));
    return found == casts_.end() ? nullptr : found->second.second;
  }

  // The one that the tensor is, or is a part of; null: none.
  const Weight* find(const torch::Tensor& tensor) const {
    if (!tensor.has_storage() || tensor.nbytes() == 0) return nullptr;
    const auto after = at_.upper_bound(address_of(tensor));
    if (after == at_.begin()) return nullptr;
    const Weight& before = std::prev(after)->second;
    const bool within = address_of(tensor) < address_of(before.tensor) + before.tensor.nbytes();
    return within && memory_of(tensor) == memory_of(before.tensor) ? &before : nullptr;
  }

 private:
  static const std::byte* address_of(const torch::Tensor& tensor) {
    return static_cast<const std::byte*>(tensor.const_data_ptr());
  }

  std::map<const std::byte*, Weight> at_;
  // By its memory, which is not made anew while somebody has a weak reference to it.
  std::map<const void*, std::pair<c10::weak_intrusive_ptr<c10::StorageImpl>, const Weight*>> casts_;
};

// Whether dimension `d` of what is seen of a weight is its first one.
bool is_first_dimension(const torch::Tensor& view, int64_t d, const torch::Tensor& weight) {
  if (weight.dim() < 2 || view.dim() < 2) return false;
  const auto is = [&](int64_t of_weight) {
    return view.size(d) == weight.size(of_weight) && view.stride(d) == weight.stride(of_weight);
  };
  return is(0) && !is(-1);
}

// One call under way.
struct Call {
  Tensors inputs;
  const ProductRule* rule = nullptr;
  bool within_counted = false;  // a product or a kernel above it has all that it does
  bool has_all = false;         // it is one
  bool counted_below = false;
  Stopwatch watch = {};
};

class Counter {
 public:
  Counter(const torch::nn::Module& module, const std::function<void()>& wait)
      : weights_(module), wait_(wait) {}

  // The clock of a call runs only between these two, so that looking at it is not part of it.
  void start(const at::RecordFunction& function) {
    Call call;
    call.within_counted = !calls_.empty() && (calls_.back().within_counted || calls_.back().has_all);
    if (!call.within_counted) {
      call.inputs = tensors_of(inputs_of(function));
      call.rule = product_rule(function.name(), inputs_of(function));
      call.has_all = call.rule != nullptr || traits_of(function).is_kernel;
    }
    calls_.push_back(std::move(call));
    calls_.back().watch.restart();
  }

  void end(const at::RecordFunction& function) {
    if (wait_ && !calls_.back().within_counted) wait_();
    const double seconds = calls_.back().watch.seconds();
    const Call call = std::move(calls_.back());
    calls_.pop_back();
    if (call.within_counted) return;
    const bool counted = call.counted_below || count(function, call, tensors_of(outputs_of(function)));
    if (!calls_.empty() && counted) calls_.back().counted_below = true;
    if (counted && !call.counted_below) result_.counts.operators.back().seconds = seconds;
  }

  WeightCount take() { return std::move(result_); }

 private:
  // An operator, as LibTorch's dispatcher knows it.
  struct Traits {
    bool is_known = false;
    bool is_mutable = false;
    bool is_kernel = false;  // not composed of other operators; what it calls serves its own computing
  };

  // Each operator's name stands at an address of its own.
  const Traits& traits_of(const at::RecordFunction& function) {
    const auto [entry, is_new] = traits_.try_emplace(function.name());
    const auto name = is_new ? function.operator_name() : std::nullopt;
    const auto op = name ? c10::Dispatcher::singleton().findSchema(*name) : std::nullopt;
    if (op) {
      using c10::DispatchKey;
      entry->second = {.is_known = true,
                       .is_mutable = op->schema().is_mutable(),
                       .is_kernel = !op->hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd) &&
                                    !op->hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd)};
    }
    return entry->second;
  }

  // A view computes nothing, memory that was only asked for neither.
  bool computes(const at::RecordFunction& function, const Call& call, const Tensors& outputs) {
    const std::string_view name = function.name();
    if (outputs.empty() || name.find("empty") != name.npos || name.find("resize") != name.npos) return false;
    const Traits& traits = traits_of(function);
    if (!traits.is_known || traits.is_mutable) return traits.is_known;
    return std::ranges::none_of(call.inputs, [&](const torch::Tensor& input) {
      return memory_of(input) != nullptr && memory_of(input) == memory_of(outputs[0]);
    });
  }

  bool count(const at::RecordFunction& function, const Call& call, const Tensors& outputs) {
    if (!computes(function, call, outputs)) return false;
    OperatorCount c{.name = function.name()};
    // Reads as many rows as it writes, not the table.
    const bool looks_up = c.name == "aten::embedding" || c.name == "aten::index_select";
    for (const torch::Tensor& output : outputs) c.bytes += (looks_up ? 2 : 1) * bytes_of(output);
    const bool multiplies = call.rule != nullptr && call.inputs.size() >= call.rule->operands;
    const Products products = multiplies ? call.rule->products(call.inputs, outputs) : Products();
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      const torch::Tensor& input = call.inputs[i];
      const int64_t bytes = looks_up && i == 0 ? 0 : bytes_of(input);
      c.bytes += bytes;
      const Weights::Weight* const weight = weights_.find(input);
      if (weight == nullptr) {
        const Weights::Weight* const cast = weights_.find_cast(input);
        if (cast != nullptr) result_.uses.push_back(use_of(*cast, input, 0, i, products, call.rule));
        continue;
      }
      last_module_ = weight->module;
      c.weight_bytes += bytes;
      if (is_cast(c.name, input, outputs[0])) {
        weights_.add_cast(*weight, outputs[0]);
      } else {
        result_.uses.push_back(use_of(*weight, input, bytes, i, products, call.rule));
      }
    }
    c.module = last_module_;
    if (multiplies) add_products(call, outputs, products, c);
    result_.counts.operators.push_back(std::move(c));
    return true;
  }

  // Whatever casts a tensor copies it in the end.
  static bool is_cast(const std::string& name, const torch::Tensor& input, const torch::Tensor& output) {
    return (name == "aten::copy_" || name == "aten::_to_copy") && output.has_storage() &&
           output.sizes() == input.sizes() && output.scalar_type() != input.scalar_type();
  }

  static WeightUse use_of(const Weights::Weight& weight, const torch::Tensor& view, int64_t bytes,
                          size_t operand, const Products& products, const ProductRule* rule) {
    WeightUse use{.name = weight.name, .bytes = bytes};
    const auto factor = std::ranges::find(products.factors, operand);
    if (factor == products.factors.end()) return use;
    use.kind = rule->kind == OperatorKind::kMatrixProduct ? OperatorKind::kLinear : rule->kind;
    const auto place = static_cast<size_t>(factor - products.factors.begin());
    const auto summed = place < products.summed.size() ? products.summed[place] : std::nullopt;
    use.inputs_first = summed && is_first_dimension(view, *summed, weight.tensor);
    return use;
  }

  static int64_t bytes_of(const torch::Tensor& tensor) { return static_cast<int64_t>(tensor.nbytes()); }

  static void add_products(const Call& call, const Tensors& outputs, const Products& products,
                           OperatorCount& c) {
    c.kind = call.rule->kind;
    // A matrix of weights makes a linear layer, however it was written.
    if (c.kind == OperatorKind::kMatrixProduct && c.weight_bytes > 0) c.kind = OperatorKind::kLinear;
    c.flops = products.flops;
    // A backward pass makes twice the products of a forward pass, shared out over the factors.
    const auto each = products.flops * 2 / static_cast<double>(products.factors.size());
    std::vector<std::string> shapes;
    for (const size_t factor : products.factors) {
      if (outputs[0].requires_grad() && call.inputs[factor].requires_grad()) c.backward_flops += each;
      shapes.push_back(cat(call.inputs[factor].sizes()));
    }
    if (products.factors.size() == 1) {  // its weights are packed: a byte for each
      c.weight_bytes = outputs[0].size(-1) * call.inputs[0].size(-1);
      c.bytes += c.weight_bytes;
      shapes.push_back(cat("[", outputs[0].size(-1), ", ", call.inputs[0].size(-1), "]"));
    }
    c.shape = join(shapes, " ");
  }

  Weights weights_;
  const std::function<void()>& wait_;
  std::unordered_map<const char*, Traits> traits_;
  std::string last_module_;
  std::vector<Call> calls_;
  WeightCount result_;
};

template <class Number>
Number total(const std::vector<OperatorCount>& operators, Number OperatorCount::*member) {
  Number sum = 0;
  for (const OperatorCount& each : operators) sum += each.*member;
  return sum;
}

}  // namespace

double ForwardCount::flops() const {
  return total(operators, &OperatorCount::flops);
}

double ForwardCount::backward_flops() const {
  return total(operators, &OperatorCount::backward_flops);
}

int64_t ForwardCount::bytes() const {
  return total(operators, &OperatorCount::bytes);
}

int64_t ForwardCount::weight_bytes() const {
  return total(operators, &OperatorCount::weight_bytes);
}

WeightCount count_weights(const torch::nn::Module& module, const std::function<void()>& forward,
                          const std::function<void()>& wait) {
  Counter counter(module, wait);
  const Stopwatch watch;
  {
    const OperatorScope counting(counter);
    forward();
    if (wait) wait();
  }
  WeightCount result = counter.take();
  result.counts.seconds = watch.seconds();
  return result;
}

ForwardCount count_forward(const torch::nn::Module& module, const std::function<void()>& forward,
                           const std::function<void()>& wait) {
  return count_weights(module, forward, wait).counts;
}

}  // namespace autotrain
