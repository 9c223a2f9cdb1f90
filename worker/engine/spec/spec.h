// SPDX-License-Identifier: Apache-2.0
#pragma once
// What to train, validated and plain: the only input of the engine besides weights and tokens. The
// rules are those of a job spec and are written only in proto/spec; worker/trainer/plan converts a
// job spec and checks specs that were made in another way. The engine relies on these rules.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/dtype.h"
#include "kernels/rotary.h"
#include "proto/base/ids.h"
#include "proto/spec/architecture.h"
#include "proto/spec/pipelines.h"

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

// The real numbers that decide what a model computes, by their names in job specs. Conversion,
// notes of checkpoints, limits, comparison and exports read this table.
struct ModelNumber {
  const char* name;
  double ModelSpec::*member;

  double Default() const { return ModelSpec().*member; }
  // Whether the model has the default as kernels see it, which compute with floats.
  bool IsDefault(const ModelSpec& model) const {
    return static_cast<float>(model.*member) == static_cast<float>(Default());
  }
};
inline constexpr ModelNumber kModelNumbers[] = {{"norm_epsilon", &ModelSpec::norm_epsilon}};

// What the backward pass recomputes instead of keeping (Chen et al. 2016; Korthikanti et al. 2022).
// kSelective: norms (not with sequence parallelism, which keeps their gathered results) and
// activation functions, never a matrix product or a collective. kFull: all of a layer from its
// input, collectives included.
enum class Recompute : uint8_t { kNone, kSelective, kFull };
const char* NameOf(Recompute recompute);  // "none", "selective", "full"

// What weight gradients wait for in a pipeline. kSend: in their own pass, for the transfer to the
// stage before. kBubble: for time in which a stage would be idle, as far as memory of the first
// stage goes (Qi et al. 2023).
enum class WgradDelay : uint8_t { kNone, kSend, kBubble };
const char* NameOf(WgradDelay delay);  // "none", "send", "bubble"

// How the residual stream reaches the ranks of another stage. kSend: each of them gets all that it
// needs from a rank that has it. kChain: ranks that need the same pass it on to each other.
// kGather: they get a part each and exchange the parts. kAuto: kSend between stages of one tp_size,
// the cheapest of the three between others (worker/engine/layout/transfers.h).
enum class Transfer : uint8_t { kAuto, kSend, kChain, kGather };
const char* NameOf(Transfer transfer);  // "auto", "send", "chain", "gather"

// Whether a library may compute the gradient of attention in bf16, for which programs then have
// scratch (kernels/ops.h). kVarying: with sums whose order varies from run to run. kRepeatable:
// with the same bits in every run. Only GPUs have such libraries.
enum class LibraryAttention : uint8_t { kNone, kVarying, kRepeatable };

struct ScheduleSpec {
  std::string name = "megatron_sync";
  // Sequences of each slice of a micro-batch, which sum to micro_batch_size. One entry: not sliced.
  std::vector<int> slices = {};
  // Column pieces of each product before a collective; divides model.hidden.
  int splits = 1;
  // Uses reduce-scatter and all-gather instead of all-reduce, and computes norms on 1/tp of the
  // rows of each slice (Korthikanti et al. 2022).
  bool sequence_parallel = false;
  Recompute recompute = Recompute::kNone;
  // Delays weight gradients by this many collectives.
  int defer_wgrads = 0;
  // The number of micro-batches whose slices share one weight gradient product; divides
  // micro_batches. 0: every slice of every micro-batch has its own product.
  int merge_wgrads = 0;
  // The order in which a stage of a pipeline computes (proto/spec/pipelines.inc).
  std::string pipeline = kDefaultPipeline;
  // The micro-batches in flight in each stage; empty: as many as the order has.
  std::vector<int> warm_up = {};
  WgradDelay wgrad_delay = WgradDelay::kNone;
  Transfer transfer = Transfer::kAuto;
  // How the two passes of a schedule that weaves take turns: a weave plan as text
  // (proto/spec/strands/weave_plan.h). Empty: the default plan.
  std::string weave = {};
};

// A stage of a pipeline whose stages differ.
struct StageSpec {
  int layers = 0;
  int tp_size = 1;
  int dp_size = 0;  // replicas; divides EngineSpec::dp_size. 0: EngineSpec::dp_size

  int ReplicasOf(int all) const { return dp_size > 0 ? dp_size : all; }  // `all`: that of the job
};

struct EngineSpec {
  ModelSpec model;
  ScheduleSpec schedule;
  int tp_size = 1;  // ranks that share a stage of a replica of the model, unless `stages` has it
  int pp_size = 1;  // stages, each of which has some of the layers
  // Chunks of consecutive layers that a stage has. More than one needs an order that takes them
  // (PipelineRules::chunked), and such an order needs more than one.
  int chunks_per_stage = 1;
  // All stages, if they are not alike; pp_size is then their number. Empty: each has tp_size, and
  // they share the layers evenly. Stages of one chunk only. Read it through worker/engine/layout.
  std::vector<StageSpec> stages = {};
  // Replicas, each of which computes its own sequences of a micro-batch, unless `stages` has the
  // number; the shares to which the sequences of a micro-batch are dealt.
  int dp_size = 1;
  // The stage of ZeRO (Rajbhandari et al. 2020, section 5): 0, each replica updates all parameters;
  // 1, each updates a part of them and has the optimizer's state of that part alone.
  int zero = 0;
  DType dtype = DType::kF32;
  // The type of activations on the wire; kBF16 with f32 compute halves the bytes.
  DType wire_dtype = DType::kF32;
  int micro_batch_size = 1;  // sequences of a share
  int micro_batches = 1;     // per step
  // Updates a parameter as soon as its gradient is final instead of when the norm is known; the
  // norm is still computed. For callers that do not clip and that discard the parameters when the
  // norm is not finite.
  bool update_at_once = false;
  LibraryAttention library_attention = LibraryAttention::kNone;
  // Whether a token attends to its own document alone; programs then have an input for where the
  // documents begin.
  bool document_mask = false;

  // The same work with gradients that have the same bits in every run, for proofs of parity.
  EngineSpec Repeatable() const;

  int world_size() const;
  // Of the whole job.
  int64_t sequences_per_step() const { return int64_t{micro_batch_size} * micro_batches * dp_size; }
};

}  // namespace stretto
