#include <torch/nn/init.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/normalization.h>

#include <cmath>
#include <functional>

#include "autotrain/checkpoint.h"
#include "base/text.h"
#include "model/attention.h"
#include "model/decoder.h"
#include "model/experts.h"
#include "model/few_rows.h"
#include "model/linear.h"
#include "model/models.h"

namespace autotrain {
namespace {

struct TransformerOptions {
  int64_t vocabulary = 0;
  int64_t context = 0;
  int64_t layers = 0;
  int64_t width = 0;
  HeadShape heads = {};
  double dropout = 0;
  bool tied = true;
  bool rotary = false;
  ExpertOptions experts = {};
};

torch::nn::LayerNorm layer_norm(int64_t width) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({width}));
}

// What becomes of a layer's heads: [n, heads, length, head_size].
using Attention = std::function<torch::Tensor(const Heads& heads)>;

// Pre-normalised block: attention and a fourfold GELU layer, each added to its input.
class DecoderBlock final : public torch::nn::Module {
 public:
  explicit DecoderBlock(const TransformerOptions& o) : heads_(o.heads) {
    dropout_ = register_module("dropout", torch::nn::Dropout(o.dropout));
    ln1_ = register_module("ln1", layer_norm(o.width));
    qkv_ = register_module("qkv", Linear(o.width, o.heads.joined_width()));
    projection_ = register_module("projection", Linear(o.width, o.width));
    ln2_ = register_module("ln2", layer_norm(o.width));
    // The residual stream adds 2 × layers terms (Radford et al. 2019).
    const double deviation = 0.02 / std::sqrt(2.0 * static_cast<double>(o.layers));
    if (o.experts.experts > 0) {
      experts_ = register_module("experts", Experts(o.width, o.context, o.experts, deviation));
    } else {
      expand_ = register_module("expand", Linear(o.width, 4 * o.width));
      contract_ = register_module("contract", Linear(4 * o.width, o.width));
    }
    draw({&qkv_, &expand_}, 0.02);
    draw({&projection_, &contract_}, deviation);
  }

  // x: [n, length, width]
  torch::Tensor forward(torch::Tensor x, const Rotation& rotation) {
    return forward(std::move(x), rotation, [this](const Heads& heads) {
      return causal_attention(heads, dropout_->is_training() ? dropout_->options.p() : 0.0);
    });
  }

  torch::Tensor forward(torch::Tensor x, const Rotation& rotation, const Attention& attention) {
    x = x + dropout_->forward(attend(ln1_->forward(x), rotation, attention));
    return x + dropout_->forward(feed(ln2_->forward(x)));
  }

  // Multiplications with a weight for one token.
  int64_t products() const {
    const int64_t attention = qkv_->weight.numel() + projection_->weight.numel();
    if (!experts_.is_empty()) return attention + experts_->products_of_token();
    return attention + expand_->weight.numel() + contract_->weight.numel();
  }

  const Experts& experts() const { return experts_; }  // empty: none

  // Those that there are weights for: of a pruned model fewer than the recipe says, in the same groups.
  HeadShape present_heads() const {
    const int64_t served = heads_.heads / heads_.kv_heads;
    const int64_t kv_heads = qkv_->bias.size(0) / ((served + 2) * heads_.head_size);
    return {.heads = served * kv_heads, .kv_heads = kv_heads, .head_size = heads_.head_size};
  }

 private:
  static void draw(std::initializer_list<Linear*> layers, double deviation) {
    for (Linear* const layer : layers) {
      if (layer->is_empty()) continue;
      torch::nn::init::normal_((*layer)->weight, 0, deviation);
      torch::nn::init::zeros_((*layer)->bias);
    }
  }

  torch::Tensor feed(const torch::Tensor& x) {
    if (!experts_.is_empty()) return experts_->forward(x);
    return contract_->forward(at::gelu(expand_->forward(x)));
  }

  torch::Tensor attend(const torch::Tensor& x, const Rotation& rotation, const Attention& attention) {
    Heads heads = split_heads(qkv_->forward(x), present_heads());
    if (rotation.cosines.defined()) {
      heads.queries = rotated(heads.queries, rotation);
      heads.keys = rotated(heads.keys, rotation);
    }
    const torch::Tensor y = attention(heads);
    return projection_->forward(y.transpose(1, 2).flatten(2));
  }

  HeadShape heads_;
  torch::nn::Dropout dropout_{nullptr};
  torch::nn::LayerNorm ln1_{nullptr}, ln2_{nullptr};
  Linear qkv_{nullptr}, projection_{nullptr}, expand_{nullptr}, contract_{nullptr};
  Experts experts_{nullptr};  // in the place of the last two
};

// tokens [n, length] int64 → logits [n, length, vocabulary]
class Transformer final : public Network, public Decoder, public Mixture {
 public:
  explicit Transformer(const TransformerOptions& o) : o_(o) {
    token_ = register_module("token", torch::nn::Embedding(o.vocabulary, o.width));
    if (!o.rotary) position_ = register_module("position", torch::nn::Embedding(o.context, o.width));
    torch::nn::init::normal_(token_->weight, 0, 0.02);
    if (!o.rotary) torch::nn::init::normal_(position_->weight, 0, 0.02);
    for (int64_t i = 0; i < o.layers; ++i) {
      blocks_.push_back(register_module("block" + std::to_string(i), std::make_shared<DecoderBlock>(o)));
    }
    dropout_ = register_module("dropout", torch::nn::Dropout(o.dropout));
    ln_ = register_module("ln", layer_norm(o.width));
    if (o.tied) return;
    head_ = register_module("head", Linear(torch::nn::LinearOptions(o.width, o.vocabulary).bias(false)));
    torch::nn::init::normal_(head_->weight, 0, 0.02);
  }

  torch::Tensor forward(torch::Tensor tokens) override {
    const Rotation rotation = rotation_of_first(tokens.size(1));
    torch::Tensor x = embed_beginning(tokens);
    x = dropout_->forward(x);
    for (const auto& each : blocks_) {
      // What the gates chose is asked for after the pass, with its gradient: such a block is not computed
      // again.
      if (o_.experts.experts > 0) {
        x = each->forward(x, rotation);
        continue;
      }
      x = checkpoint(*each, x, [block = each.get(), rotation](const torch::Tensor& y) {
        return block->forward(y, rotation);
      });
    }
    return logits_of(x);
  }

  const ExpertOptions& expert_options() const override { return o_.experts; }

  std::vector<Experts> expert_layers() const override {
    std::vector<Experts> layers;
    for (const auto& each : blocks_) {
      if (o_.experts.experts > 0) layers.push_back(each->experts());
    }
    return layers;
  }

  DecoderFacts facts() const override {
    const HeadShape heads = blocks_.front()->present_heads();
    DecoderFacts facts{.cache = {.layers = o_.layers,
                                 .sequences = 1,
                                 .kv_heads = heads.kv_heads,
                                 .context = o_.context,
                                 .head_size = o_.heads.head_size},
                       .vocabulary = o_.vocabulary,
                       .any_length = o_.rotary,
                       .step_products = o_.vocabulary * o_.width,
                       .attention_heads = heads.heads};
    for (const torch::Tensor& each : parameters()) facts.weight_bytes += static_cast<int64_t>(each.nbytes());
    // Of a table that is only looked up a step reads a row for each sequence.
    if (!o_.rotary) facts.weight_bytes -= static_cast<int64_t>(position_->weight.nbytes());
    if (!o_.tied) facts.weight_bytes -= static_cast<int64_t>(token_->weight.nbytes());
    for (const auto& each : blocks_) facts.step_products += each->products();
    for (const Experts& each : expert_layers()) facts.expert_bytes += each->bytes_of_one();
    facts.experts = o_.experts.experts;
    facts.experts_per_token = o_.experts.experts > 0 ? o_.experts.per_token : 0;
    return facts;
  }

  torch::Tensor prefill(const torch::Tensor& tokens, const std::vector<int64_t>& lengths,
                        KeyValueCache& cache, int64_t first) override {
    if (o_.experts.experts_choose)
      fail_model("transformer", "whose experts choose among all tokens cannot be used before these are there",
                 "train it with model.routing: tokens_choose");
    const int64_t n = tokens.size(0), length = tokens.size(1);
    const Rotation rotation = rotation_of_first(length);
    torch::Tensor x = embed_beginning(tokens);
    for (int64_t layer = 0; layer < o_.layers; ++layer) {
      const torch::Tensor keys = cache.keys(layer).narrow(0, first, n).narrow(2, 0, length),
                          values = cache.values(layer).narrow(0, first, n).narrow(2, 0, length);
      x = block(layer).forward(x, rotation, [&](const Heads& heads) {
        keys.copy_(heads.keys);
        values.copy_(heads.values);
        return causal_attention(heads, 0);
      });
    }
    const torch::Tensor last = at::tensor(lengths, torch::kInt64).to(x.device()) - 1;
    return logits_of(x.index({at::arange(n, last.options()), last}));
  }

  torch::Tensor step(const torch::Tensor& tokens, const std::vector<int64_t>& positions,
                     KeyValueCache& cache) override {
    const FewRowsScope few_rows;
    const CachePlace place(positions, tokens.device());
    torch::Tensor x = token_->forward(tokens.unsqueeze(1));
    if (!o_.rotary) x = x + position_->forward(place.positions().unsqueeze(1));
    const Rotation rotation =
        o_.rotary ? rotation_at(place.positions().view({-1, 1, 1}), o_.heads.head_size) : Rotation{};
    for (int64_t layer = 0; layer < o_.layers; ++layer) {
      x = block(layer).forward(x, rotation, [&](const Heads& heads) {
        const torch::Tensor keys = place.add(cache.keys(layer), heads.keys),
                            values = place.add(cache.values(layer), heads.values);
        return attention_to_cache(heads.queries, keys, values, place.mask());
      });
    }
    return logits_of(x.select(1, 0));
  }

 private:
  DecoderBlock& block(int64_t layer) { return *blocks_[static_cast<size_t>(layer)]; }

  torch::Tensor embed_beginning(const torch::Tensor& tokens) {
    if (o_.rotary) return token_->forward(tokens);
    const torch::Tensor positions = position_->weight.slice(0, 0, tokens.size(1));
    return token_->forward(tokens) + positions;
  }

  // Of positions 0, 1, …; nothing where positions are learned.
  Rotation rotation_of_first(int64_t length) const {
    if (!o_.rotary) return {};
    const auto options = token_->weight.options().dtype(torch::kInt64);
    return rotation_at(at::arange(length, options), o_.heads.head_size);
  }

  torch::Tensor logits_of(const torch::Tensor& x) {
    const torch::Tensor last = ln_->forward(x);
    if (!head_.is_empty()) return head_->forward(last);
    const torch::Tensor& weight = token_->weight;
    return takes_columns(last, weight) ? linear_by_columns(last, weight, {}) : at::linear(last, weight);
  }

  const TransformerOptions o_;
  torch::nn::Dropout dropout_{nullptr};
  torch::nn::Embedding token_{nullptr}, position_{nullptr};
  std::vector<std::shared_ptr<DecoderBlock>> blocks_;
  torch::nn::LayerNorm ln_{nullptr};
  Linear head_{nullptr};
};

// Empty where they can be: as below.
std::string refusal_of_experts(const ExpertOptions& o) {
  if (o.experts == 0 || o.per_token <= o.experts) return "";
  return cat("a token cannot go to ", o.per_token, " of ", o.experts, " experts");
}

// Why these heads cannot be; "" where they can.
std::string refusal_of_heads(int64_t width, int64_t heads, int64_t kv_heads, bool rotary) {
  if (width % heads != 0) return cat("width ", width, " is not a multiple of its ", heads, " heads");
  if (heads % kv_heads != 0) return cat(heads, " heads cannot share ", kv_heads, " key-value heads equally");
  if (rotary && width / heads % 2 != 0)
    return cat("heads of ", width / heads, " numbers have no pairs to turn by their positions");
  return "";
}

std::shared_ptr<Network> make_transformer(const Parameters& p, const SampleShape& shape) {
  if (shape.vocabulary == 0)
    fail_model("transformer", "takes tokens", "use data.train.dataset: text, or another model");
  TransformerOptions options{.vocabulary = shape.vocabulary,
                             .context = shape.input[0],
                             .layers = p.integer("layers"),
                             .width = p.integer("width"),
                             .dropout = p.real("dropout"),
                             .tied = p.flag("tied"),
                             .rotary = p.text("positions") == "rotary"};
  const int64_t heads = p.integer("heads"), kv_heads = p.optional_integer("kv_heads").value_or(heads);
  const std::string refusal = refusal_of_heads(options.width, heads, kv_heads, options.rotary);
  if (!refusal.empty())
    fail_model("transformer", refusal, "choose model.width, model.heads and model.kv_heads so that they fit");
  options.experts = {.experts = p.integer("experts"),
                     .per_token = p.integer("experts_per_token"),
                     .experts_choose = p.text("routing") == "experts_choose",
                     .capacity = p.real("capacity"),
                     .balance = p.real("balance"),
                     .skew = p.real("gate_skew")};
  if (const std::string problem = refusal_of_experts(options.experts); !problem.empty())
    fail_model("transformer", problem, "lower model.experts_per_token, or raise model.experts");
  options.heads = {.heads = heads, .kv_heads = kv_heads, .head_size = options.width / heads};
  return std::make_shared<Transformer>(options);
}

}  // namespace

ModelRow transformer_row() {
  const std::vector<Value> no_experts = {int64_t{0}};
  return {
      {"transformer",
       "Decoder-only transformer over tokens, with causal attention, that can also generate.",
       {integer_key("layers", "Blocks.", 4).from(1, 1000),
        integer_key("width", "Size of a token's vector; a multiple of heads.", 256).from(1, 1 << 16),
        integer_key("heads", "Attention heads.", 4).from(1, 1024),
        integer_key(
            "kv_heads",
            "Heads of keys and values, each of which serves equally many heads; unset: as many as heads.")
            .from(1, 1024),
        word_key("positions",
                 "learned: a vector for each, none beyond the samples' length; rotary: queries and keys are "
                 "turned.",
                 {"learned", "rotary"}, std::string("learned")),
        real_key("dropout",
                 "Probability that an element of a residual branch or attention weight is dropped.", 0.0)
            .from(0, 0.99),
        bool_key("tied", "Use the token embedding as the output layer too.", true),
        integer_key("experts",
                    "Feed-forward layers of a block, among which a gate chooses for each token; 0: one, "
                    "without a gate.",
                    0)
            .from(0, 4096),
        integer_key("experts_per_token", "Experts that compute a token.", 2)
            .from(1, 64)
            .idle_where("experts", no_experts),
        word_key("routing",
                 "tokens_choose: each token its experts; experts_choose: each expert equally many tokens of "
                 "the micro-batch, which then influence each other.",
                 {"tokens_choose", "experts_choose"}, std::string("tokens_choose"))
            .idle_where("experts", no_experts),
        real_key(
            "balance",
            "Part of the loss that makes gates even, over each sequence: experts · Σ share · probability.",
            0.01)
            .from(0, 1e3)
            .idle_where("experts", no_experts),
        real_key(
            "capacity",
            "Tokens that an expert takes of a sequence in training, in even shares; 0: all that choose it.",
            0.0)
            .from(0, 1e3)
            .idle_where("experts", no_experts),
        real_key("gate_skew",
                 "Makes gates uneven on purpose: the i-th expert's logit loses so many times ln(i).", 0.0)
            .from(0, 100)
            .idle_where("experts", no_experts)}},
      make_transformer,
      /*is_program=*/false,
      /*predicts_once=*/false};
}

}  // namespace autotrain
