#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/normalization.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "autotrain/checkpoint.h"
#include "base/enum_names.h"
#include "base/text.h"
#include "model/boxes.h"
#include "model/models.h"

// Where each part is from stands in docs/detection.md.
namespace autotrain {
namespace {

constexpr int64_t kLeastSide = 32;      // pixels: one cell of the coarsest grid
constexpr double kScoreAtFirst = 0.01;  // of a class at an untrained point: Lin et al. 2017, section 4.1

struct YoloSize {
  const char* name;
  int64_t width;                  // channels of the first convolution
  std::array<int64_t, 4> blocks;  // residual blocks of the stages
  int64_t neck_blocks;
};

constexpr std::array kYoloSizes = {YoloSize{"p", 8, {1, 1, 1, 1}, 1}, YoloSize{"n", 16, {1, 2, 2, 1}, 1},
                                   YoloSize{"s", 32, {1, 2, 2, 1}, 1}, YoloSize{"m", 48, {2, 4, 4, 2}, 2}};

enum class YoloNorm { kGroup, kBatch };

constexpr auto enum_names(YoloNorm) {
  return std::array{EnumName<YoloNorm>{YoloNorm::kGroup, "group"},
                    EnumName<YoloNorm>{YoloNorm::kBatch, "batch"}};
}

// Convolution, normalisation and SiLU.
class YoloConv final : public torch::nn::Module {
 public:
  YoloConv(int64_t in, int64_t out, int64_t side, int64_t stride, YoloNorm norm) {
    conv_ = register_module(
        "conv", torch::nn::Conv2d(
                    torch::nn::Conv2dOptions(in, out, side).stride(stride).padding(side / 2).bias(false)));
    if (norm == YoloNorm::kBatch) {
      batch_norm_ = register_module("norm", torch::nn::BatchNorm2d(out));
    } else {
      group_norm_ = register_module("norm", torch::nn::GroupNorm(std::gcd(out, int64_t{8}), out));
    }
  }

  torch::Tensor forward(torch::Tensor x) {
    x = conv_->forward(x);
    x = batch_norm_ ? batch_norm_->forward(x) : group_norm_->forward(x);
    return at::GradMode::is_enabled() ? at::silu(x) : at::silu_(x);  // of which the backward pass needs x
  }

 private:
  torch::nn::Conv2d conv_{nullptr};
  torch::nn::BatchNorm2d batch_norm_{nullptr};
  torch::nn::GroupNorm group_norm_{nullptr};
};

// Parts of the network that are made alike.
class YoloParts {
 public:
  explicit YoloParts(YoloNorm norm) : norm_(norm) {}

  std::shared_ptr<YoloConv> conv(int64_t in, int64_t out, int64_t side, int64_t stride = 1) const {
    return std::make_shared<YoloConv>(in, out, side, stride, norm_);
  }

 private:
  YoloNorm norm_;
};

// Two 3 × 3 convolutions, added to their input (He et al. 2016).
class YoloResidual final : public torch::nn::Module {
 public:
  YoloResidual(int64_t channels, bool adds, const YoloParts& parts) : adds_(adds) {
    first_ = register_module("first", parts.conv(channels, channels, 3));
    second_ = register_module("second", parts.conv(channels, channels, 3));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor y = second_->forward(first_->forward(x));
    return adds_ ? x + y : y;
  }

 private:
  bool adds_;
  std::shared_ptr<YoloConv> first_, second_;
};

// A cross-stage partial block: half of the channels go through residual blocks, half past them.
class YoloCsp final : public torch::nn::Module {
 public:
  YoloCsp(int64_t in, int64_t out, int64_t blocks, bool adds, const YoloParts& parts) {
    through_ = register_module("through", parts.conv(in, out / 2, 1));
    past_ = register_module("past", parts.conv(in, out / 2, 1));
    register_module("blocks", blocks_);
    for (int64_t i = 0; i < blocks; ++i)
      blocks_->push_back(std::make_shared<YoloResidual>(out / 2, adds, parts));
    joined_ = register_module("joined", parts.conv(out, out, 1));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    torch::Tensor y = through_->forward(x);
    for (const auto& block : *blocks_) y = block->as<YoloResidual>()->forward(y);
    return joined_->forward(at::cat({y, past_->forward(x)}, 1));
  }

 private:
  std::shared_ptr<YoloConv> through_, past_, joined_;
  torch::nn::ModuleList blocks_;
};

// Spatial pyramid pooling: maxima over 5, 9 and 13 cells beside the cells themselves. The wider windows are
// maxima of the narrower ones' maxima.
class YoloPooling final : public torch::nn::Module {
 public:
  YoloPooling(int64_t channels, const YoloParts& parts) {
    before_ = register_module("before", parts.conv(channels, channels / 2, 1));
    after_ = register_module("after", parts.conv(2 * channels, channels, 1));
  }

  torch::Tensor forward(torch::Tensor x) {
    std::vector<torch::Tensor> wider = {before_->forward(x)};
    for (int i = 0; i < 3; ++i) wider.push_back(at::max_pool2d(wider.back(), 5, 1, 2));
    return after_->forward(at::cat(wider, 1));
  }

 private:
  std::shared_ptr<YoloConv> before_, after_;
};

using Levels = std::array<torch::Tensor, kYoloStrides.size()>;  // features of strides 8, 16 and 32

class YoloBackbone final : public torch::nn::Module {
 public:
  YoloBackbone(int64_t channels, const YoloSize& size, const YoloParts& parts) {
    stem_ = register_module("stem", parts.conv(channels, size.width, 3, 2));
    for (size_t i = 0; i < stages_.size(); ++i) {
      const int64_t in = size.width << i, out = 2 * in;
      down_[i] = register_module(cat("down", i + 1), parts.conv(in, out, 3, 2));
      stages_[i] = register_module(cat("stage", i + 1),
                                   std::make_shared<YoloCsp>(out, out, size.blocks[i], /*adds=*/true, parts));
    }
    pooling_ = register_module("pooling", std::make_shared<YoloPooling>(size.width << stages_.size(), parts));
  }

  Levels forward(torch::Tensor x) {
    Levels levels;
    x = checkpoint(*stem_, x, [this](const torch::Tensor& y) { return stem_->forward(y); });
    for (size_t i = 0; i < stages_.size(); ++i) {
      x = checkpoint(*this, x,
                     [this, i](const torch::Tensor& y) { return stages_[i]->forward(down_[i]->forward(y)); });
      if (i > 0) levels[i - 1] = x;
    }
    levels.back() = pooling_->forward(levels.back());
    return levels;
  }

 private:
  std::shared_ptr<YoloConv> stem_;
  std::array<std::shared_ptr<YoloConv>, 4> down_;
  std::array<std::shared_ptr<YoloCsp>, 4> stages_;
  std::shared_ptr<YoloPooling> pooling_;
};

// A path aggregation network: what coarse levels know goes to finer ones, then back with what those add.
class YoloNeck final : public torch::nn::Module {
 public:
  YoloNeck(const std::array<int64_t, 3>& channels, int64_t blocks, const YoloParts& parts) {
    const auto csp = [&](const char* name, int64_t in, int64_t out) {
      return register_module(name, std::make_shared<YoloCsp>(in, out, blocks, /*adds=*/false, parts));
    };
    const auto [fine, middle, coarse] = channels;
    down_to_middle_ = csp("down_to_middle", coarse + middle, middle);
    down_to_fine_ = csp("down_to_fine", middle + fine, fine);
    fine_step_ = register_module("fine_step", parts.conv(fine, fine, 3, 2));
    up_to_middle_ = csp("up_to_middle", fine + middle, middle);
    middle_step_ = register_module("middle_step", parts.conv(middle, middle, 3, 2));
    up_to_coarse_ = csp("up_to_coarse", middle + coarse, coarse);
  }

  Levels forward(const Levels& in) {
    const torch::Tensor middle = down_to_middle_->forward(at::cat({widened(in[2], in[1]), in[1]}, 1));
    const torch::Tensor fine = down_to_fine_->forward(at::cat({widened(middle, in[0]), in[0]}, 1));
    const torch::Tensor back = up_to_middle_->forward(at::cat({fine_step_->forward(fine), middle}, 1));
    return {fine, back, up_to_coarse_->forward(at::cat({middle_step_->forward(back), in[2]}, 1))};
  }

 private:
  // To the height and width of a finer level, whichever these are.
  static torch::Tensor widened(const torch::Tensor& x, const torch::Tensor& like) {
    return at::upsample_nearest2d(x, like.sizes().slice(2));
  }

  std::shared_ptr<YoloCsp> down_to_middle_, down_to_fine_, up_to_middle_, up_to_coarse_;
  std::shared_ptr<YoloConv> fine_step_, middle_step_;
};

// Two convolutions and what is read off them.
class YoloBranch final : public torch::nn::Module {
 public:
  YoloBranch(int64_t in, int64_t width, int64_t out, const YoloParts& parts) {
    first_ = register_module("first", parts.conv(in, width, 3));
    second_ = register_module("second", parts.conv(width, width, 3));
    output_ = register_module("output", torch::nn::Conv2d(torch::nn::Conv2dOptions(width, out, 1)));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    return output_->forward(second_->forward(first_->forward(x)));
  }

  torch::Tensor& bias() { return output_->bias; }

 private:
  std::shared_ptr<YoloConv> first_, second_;
  torch::nn::Conv2d output_{nullptr};
};

// One level's head: classes and boxes apart, no objectness.
class YoloHead final : public torch::nn::Module {
 public:
  YoloHead(int64_t in, int64_t width, int64_t classes, const YoloParts& parts) {
    boxes_ = register_module("boxes", std::make_shared<YoloBranch>(in, width, 4 * kYoloBins, parts));
    classes_ = register_module("classes", std::make_shared<YoloBranch>(in, width, classes, parts));
    const torch::NoGradGuard no_gradients;
    classes_->bias().fill_(std::log(kScoreAtFirst / (1 - kScoreAtFirst)));
    boxes_->bias().zero_();
  }

  // [n, height · width, bins and classes]
  torch::Tensor forward(const torch::Tensor& x) {
    return at::cat({boxes_->forward(x), classes_->forward(x)}, 1).flatten(2).transpose(1, 2);
  }

 private:
  std::shared_ptr<YoloBranch> boxes_, classes_;
};

class Yolo final : public Network {
 public:
  Yolo(int64_t channels, int64_t classes, const YoloSize& size, YoloNorm norm) {
    const YoloParts parts(norm);
    const std::array<int64_t, 3> widths = {4 * size.width, 8 * size.width, 16 * size.width};
    backbone_ = register_module("backbone", std::make_shared<YoloBackbone>(channels, size, parts));
    neck_ = register_module("neck", std::make_shared<YoloNeck>(widths, size.neck_blocks, parts));
    for (size_t i = 0; i < heads_.size(); ++i) {
      heads_[i] = register_module(cat("head", kYoloStrides[i]),
                                  std::make_shared<YoloHead>(widths[i], widths[0], classes, parts));
    }
  }

  torch::Tensor forward(torch::Tensor x) override {
    const int64_t height = x.size(2), width = x.size(3);
    const Levels levels = neck_->forward(backbone_->forward(x));
    std::vector<torch::Tensor> said;
    std::vector<std::array<int64_t, 2>> grids;
    for (size_t i = 0; i < heads_.size(); ++i) {
      said.push_back(heads_[i]->forward(levels[i]));
      grids.push_back({levels[i].size(2), levels[i].size(3)});
    }
    const torch::Tensor all = at::cat(said, 1).to(torch::kFloat32);
    const torch::Tensor points = yolo_points(grids, height, width).to(all.device());
    return at::cat({all, points.expand({all.size(0), -1, -1})}, 2);
  }

 private:
  std::shared_ptr<YoloBackbone> backbone_;
  std::shared_ptr<YoloNeck> neck_;
  std::array<std::shared_ptr<YoloHead>, kYoloStrides.size()> heads_;
};

const YoloSize& yolo_size(const std::string& name) {
  return *std::ranges::find_if(kYoloSizes, [&](const YoloSize& size) { return size.name == name; });
}

std::vector<std::string> yolo_size_names() {
  std::vector<std::string> names;
  for (const YoloSize& size : kYoloSizes) names.emplace_back(size.name);
  return names;
}

std::shared_ptr<Network> make_yolo(const Parameters& p, const SampleShape& shape) {
  if (shape.input.size() != 3) fail_model("yolo", "takes images", "use data set yolo or coco");
  if (shape.input[1] < kLeastSide || shape.input[2] < kLeastSide) {
    fail_model("yolo", cat("takes images of at least ", kLeastSide, " × ", kLeastSide, " pixels"),
               "set a larger size of data.train");
  }
  return std::make_shared<Yolo>(shape.input[0], shape.classes, yolo_size(p.text("size")),
                                *parse_enum<YoloNorm>(p.text("normalisation")));
}

}  // namespace

ModelRow yolo_model_row() {
  return {{"yolo",
           "An object detector of three scales without anchors: cross-stage partial stages, pyramid pooling, "
           "a path aggregation network and heads for classes and boxes apart. Goes with loss yolo.",
           {word_key("size", "Width and depth, from small to large: p, n, s or m.", yolo_size_names(), "n"),
            word_key("normalisation",
                     "Of groups of channels, which no cut of an update changes; or of the batch, with which "
                     "micro-batches are not the whole batch, so that updates are not cut.",
                     choices_of<YoloNorm>(), "group")}},
          make_yolo,
          /*is_program=*/false,
          /*predicts_once=*/false};
}

}  // namespace autotrain
