#include "measure/decoding_subject.h"

#include "autotrain/error.h"
#include "base/text.h"
#include "model/initial_weights.h"
#include "model/models.h"
#include "plan/memory_statement.h"
#include "step/precision.h"

namespace autotrain {
namespace {

Materials decoding_materials(Recipe recipe) {
  recipe.execution.loader.preload = Preload::kOff;  // of the data only their shape is needed
  Materials m = load_materials(recipe);
  if (recipe.weights.file) take_weights(recipe.weights, m.task->module());
  return m;
}

}  // namespace

DecodingSubject::DecodingSubject(const Recipe& recipe)
    : m_(decoding_materials(recipe)),
      precision_(resolve_precision(recipe.execution.precision, *m_.device, m_.task->module())) {
  auto& network = dynamic_cast<Network&>(m_.task->module());
  decoder_ = dynamic_cast<Decoder*>(&network);
  if (decoder_ == nullptr) {
    throw Error(ExitCode::kBadRecipe, "model.name",
                recipe.model.name + " reads no tokens one after the other: there is nothing to decode",
                "use model transformer, or leave --decode out");
  }
  if (precision_ == Precision::kInt8) {
    throw Error(ExitCode::kBadRecipe, "execution.precision", "int8 is not decoded in",
                "use fp32, bf16 or fp16");
  }
  set_products(precision_, *m_.device);
  within_budget(*m_.device, [&] {
    network.merge_adapters();
    network.to(m_.device->torch_device());
    network.eval();
    if (is_half(precision_)) network.to(product_type(precision_));
  });
}

std::vector<Experts> DecodingSubject::expert_layers() const {
  const auto* const mixture = dynamic_cast<const Mixture*>(decoder_);
  return mixture == nullptr ? std::vector<Experts>() : mixture->expert_layers();
}

ExpertOptions DecodingSubject::expert_options() const {
  const auto* const mixture = dynamic_cast<const Mixture*>(decoder_);
  return mixture == nullptr ? ExpertOptions() : mixture->expert_options();
}

KeyValueCache DecodingSubject::make_cache(int64_t sequences, int64_t context) const {
  const DecoderFacts facts = decoder_->facts();
  if (context > facts.cache.context && !facts.any_length) {
    throw Error(ExitCode::kBadRecipe, cat("context ", context),
                cat("the model has positions for ", facts.cache.context, " tokens"),
                "give shorter --contexts, longer samples, or model.positions: rotary");
  }
  CacheShape shape = facts.cache;
  shape.sequences = sequences;
  shape.context = context;
  return {shape, torch::TensorOptions(m_.device->torch_device()).dtype(product_type(precision_))};
}

}  // namespace autotrain
