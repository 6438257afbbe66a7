// Copies, averages and updates over lists of tensors on a GPU.
#include <cmath>
#include <limits>
#include <thread>

#include "device/device.h"
#include "optim/weight_average.h"
#include "step/flat_copies.h"
#include "support/optimizers.h"
#include "support/run_workbench.h"
#include "support/small_run.h"
#include "support/support.h"

namespace autotrain {
namespace {

std::unique_ptr<Device> open_gpu() {
  Recipe r = test::small_recipe();
  r.execution.device = "cuda";
  r.execution.memory.budget = *Budget::parse("4GiB");
  return open_run_device(r);
}

// Large enough that the copies are under way for milliseconds after they were queued.
std::vector<torch::Tensor> large_tensors(const torch::Device& device, double value) {
  const auto options = torch::TensorOptions().device(device);
  return {torch::full({64 << 20}, value, options), torch::full({3}, value, options),
          torch::full({8, 64, 64, 64}, value, options).contiguous(torch::MemoryFormat::ChannelsLast),
          torch::full({1000, 2000}, value, options).slice(1, 5, 1005)};
}

TEST(CudaHostCopies, HoldWhatWasThereWhenTheyWereQueued) {
  const auto device = open_gpu();
  for (double value = 1; value <= 5; ++value) {
    const auto live = large_tensors(device->torch_device(), value);
    const auto copies = device->copy_to_host(live);
    for (const torch::Tensor& tensor : live) tensor.fill_(-1);
    std::thread([&] { copies->wait(); }).join();
    for (const torch::Tensor& copy : copies->tensors()) {
      EXPECT_TRUE(copy.is_cpu());
      EXPECT_EQ(copy.min().item<float>(), static_cast<float>(value));
      EXPECT_EQ(copy.max().item<float>(), static_cast<float>(value));
    }
    EXPECT_TRUE(copies->tensors()[2].is_contiguous(torch::MemoryFormat::ChannelsLast));
  }
}

TEST(CudaHostCopies, ThoseThatAreHeldAreNotWrittenOver) {
  const auto device = open_gpu();
  const auto first = device->copy_to_host(large_tensors(device->torch_device(), 1));
  const auto second = device->copy_to_host(large_tensors(device->torch_device(), 2));
  first->wait();
  second->wait();
  EXPECT_EQ(first->tensors()[0].sum(torch::kFloat64).item<double>(), 64 << 20);
  EXPECT_EQ(second->tensors()[0].sum(torch::kFloat64).item<double>(), 2 * (64 << 20));
  EXPECT_GT(device->kept_host_bytes(), int64_t{256} << 20);
}

TEST(CudaFlatCopies, PutBackTheBits) {
  const auto device = open_gpu();
  const auto options = torch::TensorOptions().device(device->torch_device());
  const auto nan = std::numeric_limits<double>::quiet_NaN();
  const torch::Tensor numbers =
      torch::tensor({0.0, -0.0, 1e-42, INFINITY * 1.0, nan, -nan, 2.5, -1.0}, torch::kFloat32);
  for (const bool kept : {false, true}) {
    std::vector<torch::Tensor> live;
    for (int i = 0; i < 200; ++i) live.push_back(numbers.repeat({i % 5 + 1}).to(options));
    FlatCopies copies(live, /*selects=*/true);
    copies.save();
    for (const torch::Tensor& tensor : live) tensor.fill_(nan);
    copies.restore_unless(torch::full({}, kept, options.dtype(torch::kBool)));
    for (const torch::Tensor& tensor : live) {
      const torch::Tensor got = tensor.cpu(), wanted = kept ? torch::full_like(got, nan)
                                                            : numbers.repeat({got.numel() / numbers.numel()});
      EXPECT_TRUE(got.view(torch::kInt32).equal(wanted.view(torch::kInt32))) << kept;
    }
  }
}

TEST(CudaWeightAverage, MovesAsOnTheCpuToRounding) {
  const auto device = open_gpu();
  torch::manual_seed(1);
  std::vector<NamedTensor> here, there;
  for (const int64_t size : {1, 100, 70000}) {
    here.push_back({std::to_string(size), torch::randn({size})});
    there.push_back({std::to_string(size), here.back().tensor.to(device->torch_device())});
  }
  WeightAverage cpu(here, 100), on_gpu(there, 100);
  for (WeightAverage* const average : {&cpu, &on_gpu}) average->set_update_samples(30);
  for (int step = 0; step < 5; ++step) {
    for (size_t i = 0; i < here.size(); ++i) {
      here[i].tensor.add_(torch::randn_like(here[i].tensor));
      there[i].tensor.copy_(here[i].tensor);
    }
    const float skipped = step == 3 ? 1 : 0;
    cpu.update(cpu.step_for(torch::full({}, skipped)));
    on_gpu.update(
        on_gpu.step_for(torch::full({}, skipped, torch::TensorOptions().device(device->torch_device()))));
  }
  for (size_t i = 0; i < here.size(); ++i)
    EXPECT_LE((on_gpu.state()[i].tensor.cpu() - cpu.state()[i].tensor).abs().max().item<float>(), 1e-5f);
}

// Together, or one tensor after the other: the same kernels on each element.
TEST(CudaOptimizers, UpdateTogetherAsOneByOneAndLeaveSkippedOnesAlone) {
  const auto device = open_gpu();
  for (const char* const name : {"nadamw", "lion", "lars", "lamb"}) {
    std::vector<std::vector<torch::Tensor>> results;
    for (const int64_t together : {int64_t{0}, int64_t{4} << 20}) {
      torch::manual_seed(1);
      std::vector<NamedTensor> all;
      for (const int64_t size : {3, 64, 200, 1000})
        all.push_back(
            {std::to_string(size), torch::randn({size, 33}).to(device->torch_device()).requires_grad_()});
      OptimizerRecipe r;
      r.algorithm = {name, {}};
      r.weight_decay = 0.1;
      Trained trained{.parameters = all};
      trained.together = together;
      const auto optimizer = make_optimizer(r, std::move(trained));
      for (int64_t step = 0; step < 6; ++step) {
        test::set_gradients(all, step);
        const bool skipped = step == 4;
        if (skipped) all[0].tensor.mutable_grad().fill_(NAN);
        const auto on_device = torch::TensorOptions().device(device->torch_device());
        optimizer->apply({.lr = 0.01,
                          .grad_scale = torch::full({}, 4.0f, on_device),
                          .found_inf = torch::full({}, skipped ? 1.0f : 0.0f, on_device)});
      }
      std::vector<torch::Tensor>& result = results.emplace_back();
      for (const NamedTensor& p : all) result.push_back(p.tensor.detach().cpu());
      for (const NamedTensor& state : optimizer->state()) result.push_back(state.tensor.cpu());
    }
    for (size_t i = 0; i < results[0].size(); ++i) {
      EXPECT_TRUE(at::isfinite(results[0][i]).all().item<bool>()) << name;
      EXPECT_TRUE(results[1][i].equal(results[0][i])) << name << ' ' << i;
    }
  }
}

}  // namespace
}  // namespace autotrain
