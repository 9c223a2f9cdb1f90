// SPDX-License-Identifier: Apache-2.0
#pragma once
// What to train, validated and plain: the engine's only input besides weights and tokens. The rules
// are those of a job spec (proto/spec), and written there alone; worker/trainer/plan converts a job
// spec and checks a spec that was made in another way. The engine relies on them.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/dtype.h"
#include "kernels/rotary.h"
#include "proto/spec/architecture.h"

namespace stretto {

const char* NameOf(RotaryScaling::Kind kind);  // "none", "linear", "llama3"

struct ModelSpec {
  Architecture architecture = ArchitectureOf(kDefaultFamily);
  int layers = 0;
  int hidden = 0;
  int heads = 0;
  int kv_heads = 0;  // 0: as many as heads
  int ffn_hidden = 0;
  int sequence_length = 0;
  int vocab_size = 0;       // of the tokenizer
  int rotary_base = 10000;  // of rotary positions
  double dropout = 0;       // probability: embedding, attention, and both residual branches
  double norm_epsilon = 1e-5;
  std::optional<bool> tied_head = {};  // nothing: as the architecture's default
  RotaryScaling rotary_scaling = {};   // of rotary positions

  int head_dim() const { return hidden / heads; }
  // Whether the head is the token embedding.
  bool head_is_tied() const { return tied_head.value_or(architecture.tied_head); }
  int key_heads() const { return kv_heads > 0 ? kv_heads : heads; }
  int padded_vocab() const { return PaddedVocabulary(vocab_size); }
};

// What backward computes again instead of keeping it (Chen et al. 2016; Korthikanti et al. 2022).
// kSelective: norms (not with sequence parallelism, which keeps them gathered) and activation
// functions, never a matrix product or a collective. kFull: all of a layer from its input,
// collectives included.
enum class Recompute : uint8_t { kNone, kSelective, kFull };
const char* NameOf(Recompute recompute);  // "none", "selective", "full"

struct ScheduleSpec {
  std::string name = "megatron_sync";
  // Sequences of each slice of a micro-batch; sums to micro_batch_size. One entry: not sliced.
  std::vector<int> slices = {};
  // Column pieces of each product in front of a collective; divides model.hidden.
  int splits = 1;
  // Reduce-scatter and all-gather instead of all-reduce; norms on 1/tp of each slice's rows
  // (Korthikanti et al. 2022).
  bool sequence_parallel = false;
  Recompute recompute = Recompute::kNone;
  // Weight gradients run this many collectives later than they could.
  int defer_wgrads = 0;
  // Micro-batches whose slices share one weight gradient product, instead of one each; divides
  // micro_batches. 0: every slice of every micro-batch has its own.
  int merge_wgrads = 0;
};

struct EngineSpec {
  ModelSpec model;
  ScheduleSpec schedule;
  int tp_size = 1;
  DType dtype = DType::kF32;
  // Type of activations on the wire; kBF16 with f32 compute halves the bytes.
  DType wire_dtype = DType::kF32;
  int micro_batch_size = 1;  // sequences
  int micro_batches = 1;     // per step
  // Updates a parameter once its gradient is final instead of once the norm is known, which is
  // computed all the same. For who clips nothing and gives the parameters up when the norm is not
  // finite.
  bool update_at_once = false;
};

}  // namespace stretto
