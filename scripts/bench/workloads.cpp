#include "workloads.h"

#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/rnn.h>

#include <bit>
#include <stdexcept>

#include "data/datasets.h"
#include "data/image_dataset.h"
#include "model/losses.h"
#include "model/models.h"

namespace autotrain::bench {
namespace {

Choice images(const std::string& split, int64_t limit) {
  return {"fashion_mnist", {{"split", split}, {"limit", limit}, {"normalize", false}}};
}

// Bytes of 64 random images in colour, of 224 × 224 pixels, over and over: a batch is gathered, and nothing
// is drawn for it.
std::unique_ptr<Dataset> images_in_memory(int64_t samples) {
  constexpr int64_t kSide = 224, kDrawn = 64, kClasses = 10;
  const torch::Tensor drawn = torch::randint(0, 256, {kDrawn, 3, kSide, kSide}, torch::kUInt8);
  return std::make_unique<ImageDataset>(
      ImageDataset::Content{.images = drawn.repeat({samples / kDrawn, 1, 1, 1}),
                            .labels = torch::arange(samples).remainder(kClasses),
                            .classes = kClasses},
      AugmentRecipe{});
}

// In colour, of `side` × `side` pixels.
Choice made_up_images(int64_t side, int64_t samples) {
  return {"synthetic",
          {{"kind", std::string("images")},
           {"shape", std::vector<int64_t>{3, side, side}},
           {"samples", samples}}};
}

Choice tokens(int64_t samples, int64_t first) {
  return {
      "synthetic",
      {{"kind", std::string("tokens")}, {"classes", int64_t{256}}, {"samples", samples}, {"first", first}}};
}

// Of GPT-2's vocabulary, filled up to a multiple of 64; sequences of 256.
Choice many_tokens(int64_t samples, int64_t first) {
  return {"synthetic",
          {{"kind", std::string("tokens")},
           {"shape", std::vector<int64_t>{256}},
           {"classes", int64_t{50304}},
           {"samples", samples},
           {"first", first}}};
}

// Adds up the squares of the predictions, whatever the targets: for a model whose own loss needs boxes.
Loss sum_of_squares() {
  return {.terms =
              [](const torch::Tensor& prediction, const torch::Tensor&) {
                return LossTerms{prediction.square().sum(),
                                 torch::tensor(static_cast<float>(prediction.size(0)))};
              },
          .metrics = {}};
}

class Lstm final : public Network {
 public:
  explicit Lstm(int64_t columns) {
    rows_ = register_module(
        "rows", torch::nn::LSTM(torch::nn::LSTMOptions(columns, 64).num_layers(2).batch_first(true)));
    output_ = register_module("output", torch::nn::Linear(64, 10));
  }

  torch::Tensor forward(torch::Tensor images) override {
    const torch::Tensor states = std::get<0>(rows_->forward(images.squeeze(1)));
    return output_->forward(states.select(1, -1));
  }

 private:
  torch::nn::LSTM rows_{nullptr};
  torch::nn::Linear output_{nullptr};
};

// Linear layers of one width, each with a shortcut around it or not.
class Linears final : public Network {
 public:
  struct Options {
    int64_t layers = 2;
    int64_t width = 256;
    bool shortcuts = false;
    bool padded = false;  ///< the batch is filled up to a power of two
  };

  Linears(int64_t pixels, const Options& options) : options_(options) {
    input_ = register_module("input", torch::nn::Linear(pixels, options.width));
    for (int64_t i = 0; i < options.layers; ++i)
      layers_->push_back(torch::nn::Linear(options.width, options.width));
    register_module("layers", layers_);
    output_ = register_module("output", torch::nn::Linear(options.width, 10));
  }

  torch::Tensor forward(torch::Tensor images) override {
    const int64_t samples = images.size(0);
    torch::Tensor x = images.flatten(1);
    if (options_.padded) {
      const auto filled = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(samples)));
      x = at::constant_pad_nd(x, {0, 0, 0, filled - samples});
    }
    x = input_->forward(x);
    for (const auto& layer : *layers_) {
      const torch::Tensor y = layer->as<torch::nn::Linear>()->forward(x.relu());
      x = options_.shortcuts ? x + y : y;
    }
    return output_->forward(x.relu()).narrow(0, 0, samples);
  }

 private:
  Options options_;
  torch::nn::Linear input_{nullptr}, output_{nullptr};
  torch::nn::ModuleList layers_;
};

std::shared_ptr<Network> network_of(const std::string& name, const std::string& from_pytorch,
                                    const DatasetInfo& info) {
  const SampleShape shape{info.input_shape, info.classes, info.vocabulary};
  const auto model = [&](const Choice& choice) { return make_model(choice, shape); };
  if (!from_pytorch.empty())
    return model({from_pytorch.ends_with(".pt") ? "torchscript" : "exported", {{"file", from_pytorch}}});
  if (name == "mlp") return model({"mlp", {{"depth", int64_t{8}}, {"width", int64_t{1024}}}});
  if (name == "cnn") return model({"cnn", {}});
  if (name == "resnet") return model({"resnet18", {{"stem", std::string("small")}}});
  if (name == "resnet50") return model({"resnet50", {}});
  if (name == "detector") return model({"detector", {}});
  if (name == "gpt") return model({"transformer", {{"tied", false}}});
  if (name == "gpt2")
    return model({"transformer", {{"layers", int64_t{12}}, {"width", int64_t{768}}, {"heads", int64_t{12}}}});
  const int64_t pixels = info.input_shape[1] * info.input_shape[2];
  if (name == "lstm") return std::make_shared<Lstm>(info.input_shape[2]);
  if (name == "residual")
    return std::make_shared<Linears>(pixels, Linears::Options{.layers = 60, .width = 32, .shortcuts = true});
  if (name == "padded") return std::make_shared<Linears>(pixels, Linears::Options{.padded = true});
  if (name == "wide") return std::make_shared<Linears>(pixels, Linears::Options{});
  throw std::invalid_argument("no workload " + name);
}

}  // namespace

Workload make_workload(const std::string& name, const std::string& from_pytorch) {
  Workload workload;
  if (name == "gpt") {
    workload.train = make_dataset({tokens(60000, 0)});
    workload.validation = make_dataset({tokens(514, 1 << 20)});
  } else if (name == "gpt2") {
    workload.train = make_dataset({many_tokens(4096, 0)});
    workload.validation = make_dataset({many_tokens(64, 1 << 20)});
  } else if (name == "resnet50" || name == "vit") {
    workload.train = images_in_memory(2048);
    workload.validation = images_in_memory(64);
  } else if (name == "detector") {
    workload.train = make_dataset({made_up_images(128, 4096)});
    workload.validation = make_dataset({made_up_images(128, 64)});
  } else {
    workload.train = make_dataset({images("train", 60000)});
    workload.validation = make_dataset({images("test", name == "resnet" ? 1000 : 10000)});
  }
  torch::manual_seed(0);
  auto network = network_of(name, from_pytorch, workload.train->info());
  workload.task = supervised(std::move(network), name == "detector" ? sum_of_squares() : cross_entropy());
  return workload;
}

Recipe plain_recipe() {
  Recipe recipe;
  recipe.optimizer.lr = 1e-3;
  recipe.evaluation.every = {Interval::Unit::kUpdates, 1e12};
  recipe.checkpoint.every = {Interval::Unit::kUpdates, 1e12};
  return recipe;
}

std::string argument(int argc, char** argv, const std::string& name, const std::string& fallback) {
  for (int i = 1; i + 1 < argc; ++i) {
    if ("--" + name == argv[i]) return argv[i + 1];
  }
  return fallback;
}

}  // namespace autotrain::bench
