// SPDX-License-Identifier: Apache-2.0
#pragma once
// Models of features in combinations that no family has.

#include <string>
#include <vector>

#include "proto/spec/architecture.h"

namespace stretto {

// Every norm with every kind of positions, every activation and every choice of biases.
inline std::vector<Architecture> EveryMixture() {
  std::vector<Architecture> mixtures;
  for (NormKind norm : {NormKind::kLayerNorm, NormKind::kRmsNorm}) {
    for (PositionKind positions : {PositionKind::kLearned, PositionKind::kRotary}) {
      for (ActivationKind activation : {ActivationKind::kGelu, ActivationKind::kSwiGlu}) {
        for (int biases = 0; biases < 8; ++biases) {
          Architecture mixture = ArchitectureOf(kDefaultFamily);
          mixture.norm = norm;
          mixture.positions = positions;
          mixture.activation = activation;
          mixture.qkv_bias = (biases & 1) != 0;
          mixture.proj_bias = (biases & 2) != 0;
          mixture.mlp_bias = (biases & 4) != 0;
          mixtures.push_back(mixture);
        }
      }
    }
  }
  return mixtures;
}

// "rmsnorm_rotary_gelu_qkv_mlp": the features, then the products that have a bias.
inline std::string Describe(const Architecture& mixture) {
  std::string text = mixture.norm == NormKind::kLayerNorm ? "layernorm" : "rmsnorm";
  text += mixture.positions == PositionKind::kLearned ? "_learned" : "_rotary";
  text += mixture.activation == ActivationKind::kGelu ? "_gelu" : "_swiglu";
  if (mixture.qkv_bias) text += "_qkv";
  if (mixture.proj_bias) text += "_proj";
  if (mixture.mlp_bias) text += "_mlp";
  return text;
}

}  // namespace stretto
