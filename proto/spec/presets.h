// SPDX-License-Identifier: Apache-2.0
#pragma once
// The models that people may name in spec.model.preset. The coordinator validates specs with this
// table, and the trainer builds models from it.

#include <array>
#include <cstring>

#include "proto/spec/architecture.h"

namespace stretto {

struct ModelPreset {
  const char* name;
  Family family;
  int layers;
  int hidden;
  int heads;
  int kv_heads;  // heads of keys and values: `heads`, unless queries share them
  int ffn_hidden;
  int sequence_length;  // tokens; the one dimension a spec may override
  int vocab_size;       // of the tokenizer, before padding
  int rotary_base;      // 0 if positions are learned
};

// gpt-* and llama-* are small models of our own; 257 is 256 bytes and an end of document. gpt3-*:
// Brown et al. 2020, table 2.1, with head counts that divide: 1.3b has 16 heads, not 24, and 13b
// has width 5120, not 5140. Domino was measured on 30b (Wang et al. 2024). llama2-*: Touvron et al.
// 2023b. llama3-*: Grattafiori et al. 2024, table 3, with the context length of the initial
// training.
inline constexpr std::array<ModelPreset, 18> kModelPresets = {{
    {"gpt-tiny", Family::kGpt, 2, 64, 4, 4, 256, 64, 257, 0},
    {"gpt-10m", Family::kGpt, 6, 384, 6, 6, 1536, 256, 257, 0},
    {"gpt3-125m", Family::kGpt, 12, 768, 12, 12, 3072, 2048, 50257, 0},
    {"gpt3-350m", Family::kGpt, 24, 1024, 16, 16, 4096, 2048, 50257, 0},
    {"gpt3-760m", Family::kGpt, 24, 1536, 16, 16, 6144, 2048, 50257, 0},
    {"gpt3-1.3b", Family::kGpt, 24, 2048, 16, 16, 8192, 2048, 50257, 0},
    {"gpt3-2.7b", Family::kGpt, 32, 2560, 32, 32, 10240, 2048, 50257, 0},
    {"gpt3-6.7b", Family::kGpt, 32, 4096, 32, 32, 16384, 2048, 50257, 0},
    {"gpt3-13b", Family::kGpt, 40, 5120, 40, 40, 20480, 2048, 50257, 0},
    {"gpt3-30b", Family::kGpt, 64, 6144, 64, 64, 24576, 2048, 50257, 0},
    {"gpt3-175b", Family::kGpt, 96, 12288, 96, 96, 49152, 2048, 50257, 0},
    {"llama-tiny", Family::kLlama, 2, 64, 4, 2, 192, 64, 257, 10000},
    {"llama-10m", Family::kLlama, 6, 384, 6, 2, 1024, 256, 257, 10000},
    {"llama2-7b", Family::kLlama, 32, 4096, 32, 32, 11008, 4096, 32000, 10000},
    {"llama2-13b", Family::kLlama, 40, 5120, 40, 40, 13824, 4096, 32000, 10000},
    {"llama2-70b", Family::kLlama, 80, 8192, 64, 8, 28672, 4096, 32000, 10000},
    {"llama3-8b", Family::kLlama, 32, 4096, 32, 8, 14336, 8192, 128256, 500000},
    {"llama3-70b", Family::kLlama, 80, 8192, 64, 8, 28672, 8192, 128256, 500000},
}};

// Returns null if no preset has this name.
inline const ModelPreset* FindPreset(const char* name) {
  for (const ModelPreset& preset : kModelPresets) {
    if (std::strcmp(preset.name, name) == 0) return &preset;
  }
  return nullptr;
}

}  // namespace stretto
