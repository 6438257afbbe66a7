#pragma once

namespace autotrain {

enum class OperatorKind {
  kLinear,         ///< a matrix of weights times a vector for each row
  kConvolution,    ///< transposed ones included
  kMatrixProduct,  ///< of two activations
  kAttention,      ///< scaled dot products: both products, whole rows, causal or not
  kOther,          ///< elementwise, normalisation, look-up, copy: bytes only, no operations are counted
};

}  // namespace autotrain
