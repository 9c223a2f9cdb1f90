// SPDX-License-Identifier: Apache-2.0
#pragma once
// How the tensors of a format are made of parameters (worker/engine/model/parameters.h). One table
// per format, for reading and for writing.

#include <cstdint>
#include <string>
#include <vector>

#include "worker/engine/spec/spec.h"

namespace stretto {

// Rows of a parameter: all its dimensions but the last, flattened; of a norm or bias, its elements.
struct RowRange {
  std::string parameter;
  int64_t row = 0;
  int64_t rows = 0;
};

// A tensor of the format, row-major. Its rows (its columns, where `transposed`) are those of
// `pieces`, one after the other; rows beyond them are zeros.
struct StoredLayout {
  std::string name;
  std::vector<int64_t> shape;
  bool transposed = false;  // [in, out], as the Conv1D of GPT-2, instead of [out, in]
  std::vector<RowRange> pieces;
};

// As the state of GPT2LMHeadModel and LlamaForCausalLM names them ("transformer.h.0.ln_1.weight",
// "model.layers.0.mlp.up_proj.weight", "lm_head.weight"), without a head that is tied. The rotary
// convention (columns i and i + head_dim/2 turn together) is ours too, so no row moves but those of
// queries, keys and values.
std::vector<StoredLayout> HfLayout(const ModelSpec& model);

// What such a folder has of each family besides tensors.
struct HfFamily {
  Family family;
  const char* model_type;    // "llama", in config.json
  const char* architecture;  // "LlamaForCausalLM", likewise
  const char* prefix;        // in front of all names but the head's: "model."
  bool shares_keys;          // whether keys and values may have fewer heads than queries
};
const HfFamily& HfFamilyOf(Family family);

// In the order of the file (llm.c, train_gpt2.py): each tensor of all layers before the next. Names
// are llm.c's with the layer: "qkvw.3".
std::vector<StoredLayout> LlmcLayout(const ModelSpec& model);

}  // namespace stretto
