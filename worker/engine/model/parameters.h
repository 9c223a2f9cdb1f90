// SPDX-License-Identifier: Apache-2.0
#pragma once
// The parameters of a model and this rank's shard of each.
//
// The list of parameters follows from the model's features (proto/spec/architecture.h). Sharding is
// that of Shoeybi et al. 2019, section 3: qkv and fc1 by output, proj and fc2 by input, embedding
// and head by vocabulary; norms, positions, and the biases of proj and fc2 are replicated. The qkv
// weight is [kv_heads][heads/kv_heads + 2][head_dim] by hidden (AttentionShape in kernels/ops.h),
// so that a shard is a range of its first dimension. A gated fc1 is gate and up, [2][ffn] by
// hidden.

#include <cstdint>
#include <string>
#include <vector>

#include "proto/base/box.h"
#include "worker/engine/spec/spec.h"

namespace stretto {

enum class Init : uint8_t { kZero, kOne, kNormal };

struct Parameter {
  std::string name;  // global: "layers.3.mlp.fc1.weight"
  int index = 0;     // among all parameters of the model
  int layer = -1;
  bool second_half = false;      // of its layer: the MLP and the norm in front of it
  std::vector<int64_t> shape;    // of the full tensor
  std::vector<int64_t> starts;   // of this rank's shard in it
  std::vector<int64_t> extents;  // of this rank's shard
  Init init = Init::kZero;
  float init_std = 0;
  // Rows of dimension 0 from this one on are padding and start at zero. -1: there is no padding.
  int64_t padding_from = -1;
  bool decay = false;  // weight decay: matrices only
  // A tied embedding in the last stage. The one in the first stage counts in the norm and is saved.
  bool copy = false;

  bool sharded() const { return shape != extents; }
  int64_t count() const;  // elements of the shard
};

// Returns all parameters in a fixed order: embeddings, layers ascending, final norm, and the head
// if it is not tied.
std::vector<Parameter> ParametersOf(const ModelSpec& model, int tp_size, GroupRank tp_rank);

// Returns those of the rank's stage, in the same order. A tied token embedding is in the first
// stage and in the last one.
std::vector<Parameter> ParametersOf(const EngineSpec& spec, Rank rank);

// Returns the stage that counts a parameter of the model in the norm and saves it.
int OwnerOf(const EngineSpec& spec, const Parameter& parameter);

// Returns the elements of a range of a shard, in order, as shards of their own, each of which is a
// box. The shard itself if the range is all of it.
std::vector<Parameter> BoxesOf(const Parameter& shard, ElementRange range);

// Indices of the parameters in such a list; -1 for those that it does not have.
struct LayerParameters {
  int ln1_w, ln1_b, qkv_w, qkv_b, proj_w, proj_b;
  int ln2_w, ln2_b, fc1_w, fc1_b, fc2_w, fc2_b;
};
struct ModelParameters {
  int token_embedding, position_embedding;
  std::vector<LayerParameters> layers;
  int final_w, final_b;
  int head;  // the token embedding where the head is tied to it
};
ModelParameters IndexOf(const std::vector<Parameter>& parameters, int layers);

// Fills values[begin, end) of the shard (row-major, count() elements) with initial values. Each
// element is a function of (seed, Parameter::index, its index in the full tensor) only. Every
// layout therefore cuts its shards from the same tensors, and ranges may be filled in any order,
// also concurrently.
void Initialise(const Parameter& parameter, uint64_t seed, int64_t begin, int64_t end,
                float* values);
inline void Initialise(const Parameter& parameter, uint64_t seed, float* values) {
  Initialise(parameter, seed, 0, parameter.count(), values);
}

}  // namespace stretto
