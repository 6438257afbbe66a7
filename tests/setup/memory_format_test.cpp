// Which images lie with their channels last, and that nothing but rounding depends on it.
#include "setup/memory_format.h"

#include <ATen/autocast_mode.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/normalization.h>

#include "autotrain/error.h"
#include "autotrain/trainer.h"
#include "data/channels_last.h"
#include "model/models.h"
#include "support/run_workbench.h"
#include "support/small_run.h"
#include "support/support.h"

namespace autotrain {
namespace {

using test::make_workbench;

struct ConvNet : torch::nn::Module {
  // The module does this to the images first. It does nothing of the kind behind the convolution, because the
  // format of what that returns depends on threads and processor.
  enum class First { kNothing, kView, kRawMemory, kBadGradients };

  explicit ConvNet(First what = First::kNothing, bool group_norm = false) : first(what) {
    if (group_norm) groups = register_module("groups", torch::nn::GroupNorm(2, 8));
    conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 8, 3).padding(1)));
    norm = register_module("norm", torch::nn::BatchNorm2d(8));
    output = register_module("output", torch::nn::Linear(8 * 3 * 3, 4));
  }

  torch::Tensor forward(torch::Tensor x) {
    const int64_t n = x.size(0);
    if (first == First::kView) x = x.view({n, -1}).view({n, 3, 6, 6});
    // A kernel does the same that takes the memory behind a tensor for contiguous images.
    if (first == First::kRawMemory) x = x.as_strided({n, 3, 6, 6}, {108, 36, 6, 1});
    const bool last = x.is_contiguous(at::MemoryFormat::ChannelsLast);
    x = conv->forward(x);
    if (first == First::kBadGradients && last && x.requires_grad())
      x.register_hook([](const torch::Tensor& g) { return g * std::numeric_limits<float>::quiet_NaN(); });
    if (groups) x = groups->forward(x);
    x = at::max_pool2d(norm->forward(x).relu(), 2);
    return output->forward(x.flatten(1));
  }

  First first;
  torch::nn::Conv2d conv{nullptr};
  torch::nn::GroupNorm groups{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Linear output{nullptr};
};

std::unique_ptr<Task> conv_task(ConvNet::First first = ConvNet::First::kNothing, bool group_norm = false) {
  torch::manual_seed(1);
  return supervised(std::make_shared<ConvNet>(first, group_norm), cross_entropy());
}

// A network that, like some exported ones, was prepared for bf16 alone.
class InBf16 final : public Network {
 public:
  explicit InBf16(ConvNet::First first) : net_(register_module("net", std::make_shared<ConvNet>(first))) {}
  bool computes_in(Precision precision) const override { return precision == Precision::kBf16; }
  torch::Tensor forward(torch::Tensor inputs) override {
    TORCH_CHECK(at::autocast::is_autocast_enabled(torch::kCPU), "it has no graphs for fp32");
    return net_->forward(std::move(inputs));
  }

 private:
  std::shared_ptr<ConvNet> net_;
};

MemoryFormat chosen_in_bf16(ConvNet::First first, const Dataset& data) {
  torch::manual_seed(1);
  Recipe recipe = test::small_recipe();
  recipe.optimizer.algorithm = {"sgd", {}};
  recipe.execution.precision = Precision::kBf16;
  return make_workbench(recipe, supervised(std::make_shared<InBf16>(first), cross_entropy()), data)
      ->memory_format;
}

TensorDataset small_images(int64_t count) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(5);
  const torch::Tensor images = at::randn({count, 3, 6, 6}, generator);
  return TensorDataset(images, images.mean({2, 3}).argmax(1));
}

Recipe with_format(MemoryFormat format) {
  Recipe recipe = test::small_recipe();
  recipe.optimizer.algorithm = {"sgd", {}};
  recipe.execution.memory_format = format;
  return recipe;
}

MemoryFormat chosen(MemoryFormat asked, std::unique_ptr<Task> task, const Dataset& data) {
  return make_workbench(with_format(asked), std::move(task), data)->memory_format;
}

TEST(MemoryFormat, AutoPutsChannelsLastForConvolutionsOverImages) {
  const TensorDataset images = small_images(64), vectors = test::small_data(64);
  EXPECT_EQ(chosen(MemoryFormat::kAuto, conv_task(), images), MemoryFormat::kChannelsLast);
  EXPECT_EQ(chosen(MemoryFormat::kContiguous, conv_task(), images), MemoryFormat::kContiguous);
  EXPECT_EQ(chosen(MemoryFormat::kAuto, test::small_task(), vectors), MemoryFormat::kContiguous);
}

TEST(MemoryFormat, OperatorsThatAreSlowInItKeepImagesContiguousUnlessItIsAskedFor) {
  const TensorDataset images = small_images(64);
  const auto with_groups = [] { return conv_task(ConvNet::First::kNothing, /*group_norm=*/true); };
  EXPECT_EQ(chosen(MemoryFormat::kAuto, with_groups(), images), MemoryFormat::kContiguous);
  EXPECT_EQ(chosen(MemoryFormat::kChannelsLast, with_groups(), images), MemoryFormat::kChannelsLast);
}

TEST(MemoryFormat, AModelThatDoesNotTakeItKeepsItsImagesContiguous) {
  const TensorDataset images = small_images(64);
  for (const auto first : {ConvNet::First::kView, ConvNet::First::kRawMemory})
    EXPECT_EQ(chosen(MemoryFormat::kAuto, conv_task(first), images), MemoryFormat::kContiguous);
}

// The forward pass of such a model, and its loss, are those of contiguous images.
TEST(MemoryFormat, AModelWhoseGradientsItSpoilsKeepsItsImagesContiguous) {
  const TensorDataset images = small_images(64);
  EXPECT_EQ(chosen(MemoryFormat::kAuto, conv_task(ConvNet::First::kBadGradients), images),
            MemoryFormat::kContiguous);
  const Error refusal = test::expect_error(ExitCode::kBadRecipe, [&] {
    chosen(MemoryFormat::kChannelsLast, conv_task(ConvNet::First::kBadGradients), images);
  });
  EXPECT_TRUE(test::holds(refusal.what(), "the norm of its gradients would be nan")) << refusal.what();
}

// LibTorch alone ends with a broken heap there, for 8 samples of 3 x 64 x 64 say.
TEST(MemoryFormat, StridedConvolutionsOfOnePixelOverFewChannelsKeepImagesContiguous) {
  struct Strided : torch::nn::Module {
    Strided() {
      conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 16, 1).stride(2)));
      output = register_module("output", torch::nn::Linear(16, 4));
    }
    torch::Tensor forward(const torch::Tensor& x) { return output->forward(conv->forward(x).mean({2, 3})); }
    torch::nn::Conv2d conv{nullptr};
    torch::nn::Linear output{nullptr};
  };
  const TensorDataset images = small_images(64);
  const auto task = [] { return supervised(std::make_shared<Strided>(), cross_entropy()); };
  EXPECT_EQ(chosen(MemoryFormat::kAuto, task(), images), MemoryFormat::kContiguous);
  const Error refusal =
      test::expect_error(ExitCode::kBadRecipe, [&] { chosen(MemoryFormat::kChannelsLast, task(), images); });
  EXPECT_TRUE(test::holds(refusal.what(), "1 x 1")) << refusal.what();
}

// LibTorch alone ends with a segmentation fault there.
TEST(MemoryFormat, AGroupNormalisationBeforeWhichNothingLearnsIsRefused) {
  const TensorDataset images = small_images(64);
  const auto task = [] {
    auto net = std::make_shared<ConvNet>(ConvNet::First::kNothing, /*group_norm=*/true);
    for (torch::Tensor& each : net->conv->parameters()) each.requires_grad_(false);
    return supervised(net, cross_entropy());
  };
  EXPECT_EQ(chosen(MemoryFormat::kAuto, task(), images), MemoryFormat::kContiguous);
  const Error refusal =
      test::expect_error(ExitCode::kBadRecipe, [&] { chosen(MemoryFormat::kChannelsLast, task(), images); });
  EXPECT_TRUE(test::holds(refusal.what(), "group normalisation before which nothing learns"))
      << refusal.what();
}

TEST(MemoryFormat, TryingItLeavesTheKernelsThatRepeatAsTheyWere) {
  const TensorDataset images = small_images(64);
  const auto state = [] {
    const at::Context& context = at::globalContext();
    return std::array{context.deterministicAlgorithms(), context.deterministicAlgorithmsWarnOnly(),
                      context.deterministicFillUninitializedMemory()};
  };
  chosen(MemoryFormat::kContiguous, conv_task(), images);
  const auto untried = state();
  chosen(MemoryFormat::kChannelsLast, conv_task(), images);
  EXPECT_EQ(state(), untried);
}

TEST(MemoryFormat, AModelThatIsComputedInHalfPrecisionAloneIsTriedInIt) {
  const TensorDataset images = small_images(64);
  EXPECT_EQ(chosen_in_bf16(ConvNet::First::kNothing, images), MemoryFormat::kChannelsLast);
  EXPECT_EQ(chosen_in_bf16(ConvNet::First::kRawMemory, images), MemoryFormat::kContiguous);
}

TEST(MemoryFormat, WhatIsAskedForAndCannotBeHadIsAnError) {
  const auto refusal = [](ConvNet::First first) {
    return test::expect_error(ExitCode::kBadRecipe, [&] {
      chosen(MemoryFormat::kChannelsLast, conv_task(first), small_images(64));
    });
  };
  EXPECT_TRUE(test::holds(refusal(ConvNet::First::kView).what(),
                          "execution.memory_format: channels_last: the model does not take it"));
  EXPECT_TRUE(test::holds(refusal(ConvNet::First::kRawMemory).what(), "samples would be"));
  const Error linear = test::expect_error(ExitCode::kBadRecipe, [&] {
    chosen(MemoryFormat::kChannelsLast, test::small_task(), test::small_data(64));
  });
  EXPECT_TRUE(test::holds(linear.what(), "the model has no convolutions"));
}

TEST(MemoryFormat, ChoosingLeavesNoTrace) {
  const TensorDataset images = small_images(64);
  auto asked = make_workbench(with_format(MemoryFormat::kContiguous), conv_task(), images);
  std::unique_ptr<Task> task = conv_task();
  torch::manual_seed(9);
  auto chosen = make_workbench(with_format(MemoryFormat::kAuto), std::move(task), images);
  const torch::Tensor after = torch::rand(4);
  torch::manual_seed(9);
  EXPECT_TRUE(after.equal(torch::rand(4)));
  EXPECT_TRUE(chosen->task->module().is_training());
  for (const NamedTensor& parameter : chosen->optimizer->parameters())
    EXPECT_FALSE(parameter.tensor.grad().defined()) << parameter.name;
  const auto before = asked->task->module().named_buffers(), now = chosen->task->module().named_buffers();
  for (const auto& buffer : before) EXPECT_TRUE(buffer.value().equal(now[buffer.key()])) << buffer.key();
}

struct Trained {
  std::vector<double> losses;
  std::map<std::string, torch::Tensor> weights;
};

Trained train(MemoryFormat format, const TensorDataset& images) {
  Trained trained;
  Recipe recipe = with_format(format);
  recipe.optimizer.lr = 0.1;
  recipe.execution.micro_batch = 16;
  const test::TemporaryFolder folder;
  Trainer trainer(recipe, conv_task(), images, {.output = folder.path() / "run"});
  trainer.on_update([&](const UpdateRecord& record) {
    trained.losses.push_back(record.loss);
    return Flow::kContinue;
  });
  trainer.fit();
  EXPECT_EQ(trainer.plan().memory_format, format);
  for (const auto& parameter : trainer.module().named_parameters()) {
    EXPECT_TRUE(parameter.value().is_contiguous()) << parameter.key();
    trained.weights[parameter.key()] = parameter.value().detach().clone();
  }
  return trained;
}

// Under plain descent, which does not amplify rounding as Adam does.
TEST(MemoryFormat, BothFormatsLearnTheSameButForRounding) {
  const TensorDataset images = small_images(128);
  const Trained a = train(MemoryFormat::kContiguous, images), b = train(MemoryFormat::kChannelsLast, images);
  ASSERT_EQ(a.losses.size(), b.losses.size());
  for (size_t i = 0; i < a.losses.size(); ++i) EXPECT_NEAR(a.losses[i], b.losses[i], 1e-4 * a.losses[i]);
  EXPECT_LT(a.losses.back(), a.losses.front()) << "it learns";
  for (const auto& [name, weights] : a.weights) {
    EXPECT_TRUE(at::allclose(weights, b.weights.at(name), 1e-3, 1e-5)) << name;
  }
}

TEST(ChannelsLast, ValuesStayAndOnlyTheirPlacesChange) {
  for (const std::vector<int64_t>& sizes :
       {std::vector<int64_t>{2, 3, 4, 5}, {2, 1, 4, 5}, {1, 1, 4, 5}, {2, 3, 1, 1}}) {
    const torch::Tensor images = torch::randn(sizes), stored = channels_last(images);
    EXPECT_TRUE(stored.equal(images));
    EXPECT_EQ(stored.suggest_memory_format(), at::MemoryFormat::ChannelsLast) << images.sizes();
  }
  const torch::Tensor grey = torch::randn({2, 1, 4, 5}), rows = torch::randn({2, 3});
  EXPECT_EQ(channels_last(grey).const_data_ptr(), grey.const_data_ptr()) << "one channel needs no copy";
  EXPECT_EQ(channels_last(rows).strides(), rows.strides());
  EXPECT_FALSE(channels_last({}).defined());
}

}  // namespace
}  // namespace autotrain
