// SPDX-License-Identifier: Apache-2.0
#pragma once
// Describes how tensors of a format consist of parameters (worker/engine/model/parameters.h): one
// table per format, for reading and for writing.

#include <cstdint>
#include <string>
#include <vector>

#include "proto/spec/fields.h"
#include "worker/engine/spec/spec.h"

namespace stretto {

// Rows of a parameter: all its dimensions but the last, flattened; of a norm or bias, its elements.
struct RowRange {
  std::string parameter;
  int64_t row = 0;
  int64_t rows = 0;
};

// A tensor of the format, row-major. Its rows (its columns, if `transposed`) are those of `pieces`
// in sequence; further rows are zeros.
struct StoredLayout {
  std::string name;
  std::vector<int64_t> shape;
  bool transposed = false;  // [in, out], as the Conv1D of GPT-2, instead of [out, in]
  std::vector<RowRange> pieces;
};

// Uses the names of the state of GPT2LMHeadModel and LlamaForCausalLM
// ("transformer.h.0.ln_1.weight", "model.layers.0.mlp.up_proj.weight", "lm_head.weight"), without a
// tied head. Our rotary convention is the same (columns i and i + head_dim/2 rotate together), so
// only rows of queries, keys and values are reordered.
std::vector<StoredLayout> HfLayout(const ModelSpec& model);

// Properties of such a folder, by family, besides the tensors.
struct HfFamily {
  Family family;
  const char* model_type;              // "llama", in config.json
  const char* architecture;            // likewise in config.json: "LlamaForCausalLM"
  const char* prefix;                  // of all names except the head's: "model."
  bool shares_keys;                    // whether keys and values may have fewer heads than queries
  const char* HuggingFaceKeys::*keys;  // the keys of its config.json, in the table of fields
};
const HfFamily& HfFamilyOf(Family family);
// Returns the key of config.json for a field of a job's model ("rotary_scaling.factor"). The family
// must have one.
const char* HfKey(Family family, absl::string_view field);

// Returns tensors in the order of the file (llm.c, train_gpt2.py): each tensor of all layers before
// the next. Names are llm.c's with the layer: "qkvw.3".
std::vector<StoredLayout> LlmcLayout(const ModelSpec& model);

}  // namespace stretto
