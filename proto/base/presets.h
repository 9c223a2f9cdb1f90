#pragma once
// The models people may name in spec.model.preset. One table for the coordinator, which validates a
// spec against it, and the trainer, which builds the model.

#include <array>
#include <cstring>

namespace stretto {

// A GPT: learned positions, pre-norm LayerNorm, GELU, tied head.
struct ModelPreset {
  const char* name;
  int layers;
  int hidden;
  int heads;
  int ffn_hidden;
  int sequence_length;  // tokens; the one dimension a spec may override
  int vocab_size;       // of the tokenizer, before padding
};

// 257 = 256 bytes and an end of document.
inline constexpr std::array<ModelPreset, 3> kModelPresets = {{
    {"gpt-tiny", 2, 64, 4, 256, 64, 257},
    {"gpt-10m", 6, 384, 6, 1536, 256, 257},
    {"gpt3-125m", 12, 768, 12, 3072, 2048, 50257},
}};

// Null when no preset has this name.
inline const ModelPreset* FindPreset(const char* name) {
  for (const ModelPreset& preset : kModelPresets) {
    if (std::strcmp(preset.name, name) == 0) return &preset;
  }
  return nullptr;
}

// Rows of the embedding and of the head: the vocabulary rounded up to a multiple of 128, whatever
// the TP size, so that all layouts share one set of weights.
inline constexpr int kVocabularyMultiple = 128;
constexpr int PaddedVocabulary(int vocab_size) {
  return (vocab_size + kVocabularyMultiple - 1) / kVocabularyMultiple * kVocabularyMultiple;
}

}  // namespace stretto
