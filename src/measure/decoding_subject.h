#pragma once

#include <memory>
#include <vector>

#include "autotrain/recipe.h"
#include "device/device.h"
#include "model/decoder.h"
#include "model/experts.h"
#include "setup/assembly.h"

namespace autotrain {

/// The model that a recipe names, as it is used for decoding: weights converted once, adapters merged,
/// nothing that trains.
class DecodingSubject {
 public:
  /// @throws Error(kBadRecipe) for a model that does not decode, and for int8; as data, model and weights are
  /// loaded.
  explicit DecodingSubject(const Recipe& recipe);

  Device& device() { return *m_.device; }
  Precision precision() const { return precision_; }
  Decoder& decoder() { return *decoder_; }

  /// Its layers of experts, of these options; empty: it has none.
  std::vector<Experts> expert_layers() const;
  ExpertOptions expert_options() const;

  /// A cache for so many sequences of so many tokens. @throws Error(kBadRecipe) where the model has no so
  /// many positions.
  KeyValueCache make_cache(int64_t sequences, int64_t context) const;

 private:
  Materials m_;
  Precision precision_;
  Decoder* decoder_ = nullptr;
};

}  // namespace autotrain
