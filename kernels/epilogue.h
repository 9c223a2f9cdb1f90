// SPDX-License-Identifier: Apache-2.0
#pragma once
// Products with more in their epilogue than a bias. No step has them; they are there to be timed
// beside the calls that they could stand for (docs/design/0006-cuda-backend.md says why).

#include <cstdint>

#include "kernels/dtype.h"

namespace stretto {

enum class Epilogue : uint8_t {
  kGelu,          // Gemm with bias, then Gelu: writes both u and a
  kGeluGrad,      // GemmDgrad, then GeluGrad
  kGeluGradBias,  // and then BiasGrad, whose sum is not added to what is there
  kBiasGrad,      // GemmWgrad, and BiasGrad, likewise
};

// Tokens, and the shape of the product's weight [out, in], as Ops has them.
struct EpilogueProduct {
  Epilogue epilogue = Epilogue::kGelu;
  DType dtype = DType::kBF16;
  int64_t tokens = 0, in = 0, out = 0;
};

}  // namespace stretto
