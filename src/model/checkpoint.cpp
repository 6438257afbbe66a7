#include "autotrain/checkpoint.h"

#include <ATen/ThreadLocalState.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "autotrain/random.h"
#include "base/run_thread.h"
#include "base/text.h"
#include "device/generators.h"
#include "device/run_generator.h"
#include "model/moved_tensors.h"
#include "model/recompute_scope.h"

namespace autotrain {
namespace {

using Hooks = torch::autograd::SavedVariableHooks;

// Autocast as it is in a thread, for one type of device.
class AutocastState {
 public:
  explicit AutocastState(torch::DeviceType device)
      : device_(device),
        enabled_(at::autocast::is_autocast_enabled(device)),
        dtype_(at::autocast::get_autocast_dtype(device)) {}

  void put_back() const {
    at::autocast::set_autocast_enabled(device_, enabled_);
    at::autocast::set_autocast_dtype(device_, dtype_);
  }

 private:
  torch::DeviceType device_;
  bool enabled_;
  torch::ScalarType dtype_;
};

// A block that is computed again.
struct Block {
  torch::Tensor x;  // detached: it shares its memory with the input
  bool learns = false;
  int64_t version = 0;  // of x: who changes it in place afterwards changes it here
  std::function<torch::Tensor(const torch::Tensor&)> compute;
  std::vector<torch::Tensor> buffers;
  bool for_run = false;
  at::Generator own;  // which a run draws from on a CPU
  at::ThreadLocalState thread;
  AutocastState autocast;
  GeneratorStates generators;
  int64_t saved = 0;                                     // tensors that the forward pass would have kept
  std::vector<std::optional<torch::Tensor>> again = {};  // the same, computed again, until they are used
  std::vector<int64_t> versions = {};                    // of these, when they were kept
};

struct Counting {
  int64_t most = 0;  // blocks
  CheckpointedBytes bytes;
  std::unordered_map<const c10::StorageImpl*, torch::Tensor> held;  // alive, so that none is counted twice
};

struct ThreadState {
  int64_t most = 0, seen = 0;           // blocks of the scope
  std::shared_ptr<Block> in_forward;    // the block that is being computed
  std::shared_ptr<Block> in_recompute;  // the block that is being computed again
  std::unique_ptr<Counting> counting;
  bool in_counted = false;
};

ThreadState& here() {
  thread_local ThreadState state;
  return state;
}

[[noreturn]] void fail_block(const std::string& problem) {
  throw Error(ExitCode::kBrokenContract, "autotrain::checkpoint", problem,
              "let the block depend on its input, parameters, buffers and random numbers alone, or set "
              "execution.recompute: off");
}

void compute_again(const std::shared_ptr<Block>& block);

class Dropped final : public Hooks {
 public:
  explicit Dropped(std::shared_ptr<Block> block) : block_(std::move(block)) {}

  void call_pack_hook(const at::Tensor&) override { place_ = static_cast<size_t>(block_->saved++); }

  at::Tensor call_unpack_hook() override {
    if (place_ >= block_->again.size() || !block_->again[place_]) compute_again(block_);
    return *std::exchange(block_->again[place_], std::nullopt);
  }

 private:
  std::shared_ptr<Block> block_;
  size_t place_ = 0;
};

class HandedOver final : public Hooks {
 public:
  explicit HandedOver(std::shared_ptr<Block> block) : block_(std::move(block)) {}
  void call_pack_hook(const at::Tensor& tensor) override {
    block_->again.emplace_back(tensor.detach());
    block_->versions.push_back(tensor._version());
  }
  at::Tensor call_unpack_hook() override { fail_block("a block differentiates within itself"); }

 private:
  std::shared_ptr<Block> block_;
};

class Counted final : public Hooks {
 public:
  void call_pack_hook(const at::Tensor& tensor) override {
    tensor_ = tensor.detach();
    Counting& counting = *here().counting;
    const bool parameter = tensor.is_leaf() && tensor.requires_grad();
    if (parameter || !tensor.has_storage()) return;
    const c10::StorageImpl* const storage = tensor.storage().unsafeGetStorageImpl();
    if (counting.held.emplace(storage, tensor_).second)
      counting.bytes.within += static_cast<int64_t>(tensor.storage().nbytes());
  }
  at::Tensor call_unpack_hook() override { return tensor_; }

 private:
  at::Tensor tensor_;
};

// The engine of LibTorch, but that it asks the thread what becomes of a tensor that is kept.
class HookEngine final : public torch::autograd::Engine {
 public:
  HookEngine() = default;
  ~HookEngine() override { stop(); }

  std::unique_ptr<Hooks> get_default_saved_variable_hooks() override {
    const ThreadState& state = here();
    if (state.in_recompute) return std::make_unique<HandedOver>(state.in_recompute);
    if (state.in_forward) return std::make_unique<Dropped>(state.in_forward);
    if (state.in_counted) return std::make_unique<Counted>();
    return moving_hooks();
  }
};

// One for the process, and never taken away: graphs of other threads may have it.
torch::autograd::Engine& the_engine() {
  static auto* const engine = new HookEngine;
  return *engine;
}

// Puts a member of the thread's state back.
template <class Value>
class Placed {
 public:
  Placed(Value& place, Value value) : place_(place), before_(std::exchange(place, std::move(value))) {}
  ~Placed() { place_ = std::move(before_); }
  Placed(const Placed&) = delete;
  Placed& operator=(const Placed&) = delete;

 private:
  Value& place_;
  Value before_;
};

// Buffers as they are, until the end.
class KeptBuffers {
 public:
  explicit KeptBuffers(const std::vector<torch::Tensor>& buffers) : live_(buffers) {
    for (const torch::Tensor& each : live_) kept_.push_back(each.clone());
  }
  // Below the count of versions: what was kept of the buffers outside the block is as it was.
  ~KeptBuffers() {
    try {
      const torch::NoGradGuard no_gradients;
      const at::AutoDispatchBelowADInplaceOrView below;
      for (size_t i = 0; i < live_.size(); ++i) torch::Tensor(live_[i]).copy_(kept_[i]);
    } catch (const std::exception& error) {  // the device is lost: whoever uses it next says so
      log::error("model", cat("buffers could not be put back: ", first_line(error.what())));
    }
  }
  KeptBuffers(const KeptBuffers&) = delete;
  KeptBuffers& operator=(const KeptBuffers&) = delete;

 private:
  const std::vector<torch::Tensor>& live_;
  std::vector<torch::Tensor> kept_;
};

void compute_again(const std::shared_ptr<Block>& block) {
  if (block->x._version() != block->version) fail_block("the input of a block was changed in place");
  block->again.clear();
  block->versions.clear();
  const AutocastState autocast_now(block->x.device().type());
  {
    const at::ThreadLocalStateGuard thread(block->thread);
    const ThreadWork work(block->for_run);
    const RunGeneratorScope own(block->own);
    const GeneratorScope generators_now(block->x.device());
    const KeptBuffers buffers(block->buffers);
    const Placed placed(here().in_recompute, block);
    const at::AutoGradMode with_gradients(true);
    block->autocast.put_back();
    block->generators.put_back();
    block->compute(block->x.detach().requires_grad_(block->learns));
  }
  at::autocast::clear_cache();  // of weights that the update will change
  autocast_now.put_back();
  if (std::ssize(block->again) != block->saved)
    fail_block(cat("a block kept ", block->saved, " tensors, and ", block->again.size(),
                   " when it was computed again"));
  // Whoever keeps everything is told by LibTorch; without what is kept only this can tell.
  for (size_t i = 0; i < block->again.size(); ++i) {
    if (block->again[i]->_version() != block->versions[i])
      fail_block("a block changes in place what it keeps for the backward pass");
  }
}

}  // namespace

void install_saved_tensor_hooks() {
  static const bool installed = (torch::autograd::set_default_engine_stub(the_engine), true);
  (void)installed;
}

RecomputeScope::RecomputeScope(int64_t blocks) {
  if (blocks > 0) install_saved_tensor_hooks();
  here().most = blocks;
  here().seen = 0;
}

RecomputeScope::~RecomputeScope() {
  here().most = 0;
}

CheckpointCount::CheckpointCount(int64_t blocks) {
  install_saved_tensor_hooks();
  here().counting = std::make_unique<Counting>();
  here().counting->most = blocks;
}

CheckpointCount::~CheckpointCount() {
  here().counting.reset();
}

CheckpointedBytes CheckpointCount::bytes() const {
  return here().counting->bytes;
}

torch::Tensor checkpoint(const torch::nn::Module& module, const torch::Tensor& x,
                         const std::function<torch::Tensor(const torch::Tensor& x)>& block) {
  ThreadState& state = here();
  if (!torch::GradMode::is_enabled() || state.in_recompute || state.in_forward || state.in_counted)
    return block(x);
  if (state.counting && state.counting->bytes.blocks < state.counting->most) {
    CheckpointedBytes& bytes = state.counting->bytes;
    ++bytes.blocks;
    bytes.inputs += static_cast<int64_t>(x.nbytes());
    const Placed placed(state.in_counted, true);
    return block(x);
  }
  if (state.seen >= state.most) return block(x);
  ++state.seen;
  const bool learns = x.requires_grad();
  auto again = std::make_shared<Block>(Block{.x = x.detach(),
                                             .learns = learns,
                                             .version = x._version(),
                                             .compute = block,
                                             .buffers = module.buffers(/*recurse=*/true),
                                             .for_run = works_for_run(),
                                             .own = cpu_generator(),
                                             .thread = at::ThreadLocalState(),
                                             .autocast = AutocastState(x.device().type()),
                                             .generators = GeneratorStates(x.device())});
  const Placed placed(state.in_forward, again);
  torch::Tensor y = block(x);
  if (x._version() != again->version) fail_block("a block changed its input in place");
  return y;
}

torch::Tensor checkpoint_each(torch::nn::Sequential& blocks, torch::Tensor x) {
  for (torch::nn::AnyModule& each : *blocks) {
    x = checkpoint(*each.ptr(), x,
                   [block = &each](const torch::Tensor& y) { return block->forward<torch::Tensor>(y); });
  }
  return x;
}

}  // namespace autotrain
