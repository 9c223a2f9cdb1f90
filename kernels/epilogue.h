// SPDX-License-Identifier: Apache-2.0
#pragma once
// Products with more in their epilogue than a bias. No step uses them; they exist to be timed
// beside the calls that they could replace (docs/design/0006-cuda-backend.md has the reasons).

#include <cstdint>

#include "kernels/dtype.h"

namespace stretto {

enum class Epilogue : uint8_t {
  kGelu,          // Gemm with bias, then Gelu: writes both u and a
  kGeluGrad,      // GemmDgrad, then GeluGrad
  kGeluGradBias,  // kGeluGrad, then BiasGrad whose sum overwrites
  kBiasGrad,      // GemmWgrad, and BiasGrad whose sum overwrites
};

// The number of tokens, and the shape of the product's weight [out, in] as in Ops.
struct EpilogueProduct {
  Epilogue epilogue = Epilogue::kGelu;
  DType dtype = DType::kBF16;
  int64_t tokens = 0, in = 0, out = 0;
};

}  // namespace stretto
