// SPDX-License-Identifier: Apache-2.0
#pragma once
// Emits all the mathematics of a step for one rank: every operation of forward, backward and
// optimizer. The gradients of activations (dgrad) and of weights (wgrad) are separate operations.
// They are cut into row slices and column pieces, with or without sequence parallelism (DESIGN
// section 4, "Emit, then arrange").
//
// Units: "begin", "micro_batch" (forward, then backward) and "optimizer". The order is canonical:
// part by part (embedding, attention, MLP, head), slices ascending within a part. On one lane it is
// the serial oracle; unsliced it is Megatron's synchronous order (Shoeybi et al. 2019, section 3).
// Contributions to a parameter's gradient are added in (micro-batch, slice) order. Later passes
// clone, merge, order and place these operations; they never add mathematics.
//
// A collective carries the tag of the product or norm that it belongs to.
//
// A stage of a pipeline has chunks of layers. The first layer of a chunk receives the residual
// stream and sends the stream's gradient back; its last layer sends the stream on and receives the
// gradient. "micro_batch" has forward of all chunks, then backward of all.

#include "worker/engine/model/parameters.h"
#include "worker/engine/program/program.h"
#include "worker/engine/spec/spec.h"

namespace stretto {

// The buffers of a step program that the host reads or writes. Map the ids with BufferMap.
struct StepBuffers {
  // i32 [sequences of a replica, sequence], per micro-batch; -1 in stages that have no embeddings
  BufferId tokens = -1;
  BufferId targets = -1;  // the same; -1, as the losses, in stages that have no head
  BufferId keys;          // i32 [kKeyCount], per micro-batch: what keys random draws
  // As tokens, in every stage: where in its sequence each token's document begins; -1 without
  // EngineSpec::document_mask.
  BufferId documents = -1;
  BufferId scalars;  // f32 [kScalarCount]
  // f32 [sequences of a replica * sequence], per micro-batch: each token's loss
  BufferId losses = -1;
  BufferId clip_state;  // f32 [kClipStateCount]
  // Per parameter of the rank, in ParametersOf order. weight has the compute type. A forward pass
  // alone has only the weights, and neither scalars nor clip_state.
  std::vector<BufferId> weight, gradient;
  // The elements of each shard that the rank updates, all or, with ZeRO, a part of them that may be
  // empty, and their buffers; -1 where there are none. weight_part and gradient_part are views of
  // weight and gradient, or those themselves if the rank updates all. In f32, master is the same
  // buffer as weight_part.
  std::vector<ElementRange> updated;
  std::vector<BufferId> weight_part, gradient_part, master, moment1, moment2;
};

struct Emitted {
  StepProgram step;  // one lane, "serial", that also carries the collectives
  StepBuffers buffers;
};

// How much of a step to emit. kForward is the unit "micro_batch" up to the losses, without dropout,
// behind what gathers the weights. Its weights are declared in the same order as those of kStep.
enum class Extent : uint8_t { kStep, kForward };

// Emits the program of `rank` from a valid spec. CHECKs that rank is in range.
Emitted Emit(const EngineSpec& spec, Rank rank, Extent extent = Extent::kStep);

}  // namespace stretto
