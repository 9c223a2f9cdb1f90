// SPDX-License-Identifier: Apache-2.0
#pragma once
// Emits all the mathematics of a step for one rank: every operation of forward, backward and
// optimizer, with the gradient of activations (dgrad) and of weights (wgrad) as separate
// operations, cut into row slices and column pieces, with or without sequence parallelism (DESIGN
// section 4, "Emit, then arrange").
//
// Units: "begin", "micro_batch" (forward, then backward) and "optimizer". The order is canonical:
// piece by piece (embedding, attention, MLP, head), slices ascending within a piece. Run on one
// lane it is the serial oracle; unsliced it is Megatron's synchronous order (Shoeybi et al. 2019,
// section 3). Contributions to a parameter's gradient are added in (micro-batch, slice) order.
// Later passes clone, merge, order and place these operations, they never add mathematics.
//
// A collective carries the tag of the product or norm that it belongs to.

#include "worker/engine/model/parameters.h"
#include "worker/engine/program/program.h"
#include "worker/engine/spec/spec.h"

namespace stretto {

// Where the host finds things in the step program: buffer ids, to be mapped with BufferMap.
struct StepBuffers {
  BufferId tokens;      // i32 [micro_batch_size, sequence], per micro-batch
  BufferId targets;     // the same
  BufferId keys;        // i32 [kKeyCount], per micro-batch: what keys random draws
  BufferId scalars;     // f32 [kScalarCount]
  BufferId losses;      // f32 [micro_batch_size * sequence], per micro-batch: each token's loss
  BufferId clip_state;  // f32 [kClipStateCount]
  // Per parameter, in ParametersOf order. weight is of the compute type; master is weight for f32.
  // A forward pass alone has the weights of these, and neither scalars nor clip_state.
  std::vector<BufferId> weight, master, moment1, moment2, gradient;
};

struct Emitted {
  StepProgram step;  // one lane, "serial", that also carries the collectives
  StepBuffers buffers;
};

// What of a step to emit: kForward is the unit "micro_batch" up to the losses, once, without
// dropout. Its weights are declared as a step's, in the same order.
enum class Extent : uint8_t { kStep, kForward };

// Of a valid spec; tp_rank out of range is a CHECK.
Emitted Emit(const EngineSpec& spec, int tp_rank, Extent extent = Extent::kStep);

}  // namespace stretto
