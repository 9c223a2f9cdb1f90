// SPDX-License-Identifier: Apache-2.0
#pragma once
// The features of which a model is made, and the families: named combinations of features. The
// engine, the cost model, the decoder and the validation of a job spec read features. Only formats
// that name tensors and configuration keys of one family (worker/exchange) ask which family
// a model belongs to.
//
// A switch over one of these enums has a case for each value and no `default`: the compiler then
// lists every place that a new feature or family concerns.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace stretto {

// kLayerNorm has weights and biases, kRmsNorm only weights. A norm precedes each half-block and the
// head.
enum class NormKind : uint8_t { kLayerNorm, kRmsNorm };
// kLearned adds a row of a table to each token's embedding; kRotary turns queries and keys.
enum class PositionKind : uint8_t { kLearned, kRotary };
// kGelu is the approximation by tanh. kSwiGlu multiplies two halves of the first MLP product:
// silu(gate) * up.
enum class ActivationKind : uint8_t { kGelu, kSwiGlu };
// kCausal attends to all earlier tokens. Queries may share keys and values.
enum class AttentionKind : uint8_t { kCausal };
// kDense sends every token through the same two products.
enum class MlpKind : uint8_t { kDense };

// The numbers are those of stretto.v1alpha1.Family (job.proto).
enum class Family : uint8_t { kGpt = 1, kLlama = 2 };

struct Architecture {
  Family family;
  const char* name;  // of the family, in job specs and in checkpoints

  NormKind norm;
  PositionKind positions;
  ActivationKind activation;
  AttentionKind attention;
  MlpKind mlp;
  bool qkv_bias;   // of the product that makes queries, keys and values
  bool proj_bias;  // of the product after attention
  bool mlp_bias;   // of both products of the MLP
  bool tied_head;  // whether the head is the token embedding, unless a model overrides it
};

// GPT-2 and GPT-3 (Radford et al. 2019, Brown et al. 2020); Llama 2 and 3 (Touvron et al. 2023b,
// Grattafiori et al. 2024).
inline constexpr std::array<Architecture, 2> kArchitectures = {{
    {.family = Family::kGpt,
     .name = "gpt",
     .norm = NormKind::kLayerNorm,
     .positions = PositionKind::kLearned,
     .activation = ActivationKind::kGelu,
     .attention = AttentionKind::kCausal,
     .mlp = MlpKind::kDense,
     .qkv_bias = true,
     .proj_bias = true,
     .mlp_bias = true,
     .tied_head = true},
    {.family = Family::kLlama,
     .name = "llama",
     .norm = NormKind::kRmsNorm,
     .positions = PositionKind::kRotary,
     .activation = ActivationKind::kSwiGlu,
     .attention = AttentionKind::kCausal,
     .mlp = MlpKind::kDense,
     .qkv_bias = false,
     .proj_bias = false,
     .mlp_bias = false,
     .tied_head = false},
}};

// For a model that names no family.
inline constexpr Family kDefaultFamily = Family::kGpt;

// In the order of the table.
inline std::vector<std::string> FamilyNames() {
  std::vector<std::string> names;
  for (const Architecture& architecture : kArchitectures) names.push_back(architecture.name);
  return names;
}

// Returns null if no family has this number or this name.
constexpr const Architecture* FindArchitecture(int number) {
  for (const Architecture& architecture : kArchitectures) {
    if (static_cast<int>(architecture.family) == number) return &architecture;
  }
  return nullptr;
}
inline const Architecture* FindArchitecture(absl::string_view name) {
  for (const Architecture& architecture : kArchitectures) {
    if (name == architecture.name) return &architecture;
  }
  return nullptr;
}

constexpr const Architecture& ArchitectureOf(Family family) {
  return *FindArchitecture(static_cast<int>(family));
}

// Whether the first MLP product has two halves, each of width ffn_hidden: a gate and its operand.
constexpr bool IsGated(ActivationKind activation) {
  switch (activation) {
    case ActivationKind::kGelu:
      return false;
    case ActivationKind::kSwiGlu:
      return true;
  }
  return false;
}

// Width of the MLP if a spec gives none. A gated MLP has three matrices instead of two, so two
// thirds of the width give as many weights; multiples of 256 suit the kernels.
constexpr int DefaultFfnHidden(const Architecture& architecture, int hidden) {
  if (!IsGated(architecture.activation)) return 4 * hidden;
  return (8 * hidden / 3 + 255) / 256 * 256;
}

// Rows of the embedding and of the head: the vocabulary rounded up to a multiple of 128, whatever
// the TP size, so that all layouts share one set of weights.
inline constexpr int kVocabularyMultiple = 128;
constexpr int PaddedVocabulary(int vocab_size) {
  return (vocab_size + kVocabularyMultiple - 1) / kVocabularyMultiple * kVocabularyMultiple;
}

}  // namespace stretto
