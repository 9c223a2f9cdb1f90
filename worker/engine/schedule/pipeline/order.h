// SPDX-License-Identifier: Apache-2.0
#pragma once
// Orders of a pipeline: in what turn a stage computes the passes of its micro-batches.
//
// A pass is of one chunk of the stage's layers. Most orders differ in their warm-ups alone: the
// forward passes of a stage up to its first backward pass, and so its micro-batches in flight. Such
// an order is a pure function in a file of its own that says how many they are, draws its timeline
// and cites its source; the rows of proto/spec/pipelines.inc declare them. A job may give them by
// hand instead (ScheduleSpec::warm_up). Schedules that weave have an order of their own
// (folded.cc).

#include <vector>

#include "proto/spec/pipelines.h"
#include "worker/engine/program/program.h"
#include "worker/engine/spec/spec.h"

namespace stretto {

// Where an order is asked for: a stage of `stages`, for `micro_batches` of a step. Each stage has
// `chunks` of layers, which are numbered in the order of data flow.
struct StageOfPipeline {
  int stage = 0, stages = 1;
  int micro_batches = 1;
  int chunks = 1;
};

// The passes of a micro-batch through a chunk. Not every order has kWeights, the weight gradients
// that nobody waits for; they are then in backward. And few have kEmbedding, the begin of forward,
// in front of the layers.
enum class PassKind : uint8_t { kForward, kBackward, kWeights, kEmbedding };

struct Turn {
  PassKind pass = PassKind::kForward;
  int micro_batch = 0;
  int chunk = 0;
  bool operator==(const Turn&) const = default;
};

// What a stage computes without a pass in between: one pass, or a forward pass and a backward pass
// of different micro-batches, in this order, that are woven (worker/engine/schedule/helix.cc), and
// with either the embedding of the next micro-batch.
using Cell = std::vector<Turn>;

// What a stage computes in a step. Each kind of pass of a chunk is in the order of the
// micro-batches.
struct PipelineOrder {
  std::vector<Cell> cells;
  // As Repeat of a step, in cells: [begin, end) repeats with this period, `stride` micro-batches
  // later.
  int begin = 0, end = 0, period = 1, stride = 1;

  // Whether weight gradients have passes of their own.
  bool weights() const { return cells.back().back().pass == PassKind::kWeights; }
  // Whether embeddings have.
  bool embeddings() const { return cells.front().front().pass == PassKind::kEmbedding; }
  // Returns the largest number of micro-batches that are at once between the begin of one pass and
  // the end of another, or of the same, in a chunk: the copies that a stage keeps of what the two
  // share.
  int InFlight(PassKind from, PassKind to, int chunk = 0) const;
  // From the first pass to the last, in the chunk that has most.
  int InFlight() const;
};

// Warm-ups. There may be more of them than passes.
#define STRETTO_PIPELINE(order, ...) int order(const StageOfPipeline& at);
#define STRETTO_FOLDED_PIPELINE(...)
#include "proto/spec/pipelines.inc"
#undef STRETTO_FOLDED_PIPELINE
#undef STRETTO_PIPELINE

// Every pass of one kind: in groups of as many micro-batches as there are stages, chunk by chunk,
// in the direction of data flow. With one chunk that is the order of the micro-batches.
std::vector<Turn> PassesInTurn(PassKind pass, const StageOfPipeline& at);  // interleaved.cc

// The order of a schedule that weaves: of folded stages with two chunks, or of one stage with one.
// Without `backward`, the forward passes of it.
PipelineOrder Folded(const StageOfPipeline& at, bool backward = true);  // folded.cc

// Forward alone, for evaluations.
PipelineOrder ForwardAlone(const ScheduleSpec& schedule, const StageOfPipeline& at);

// Forward and backward in turn: `warm_ups` forward passes less one, or all if there are fewer, then
// pairs, then the backward passes that are left.
PipelineOrder InTurn(int warm_ups, const StageOfPipeline& at);

// The same with passes of weight gradients, each `delay` micro-batches behind backward
// (zero_bubble.cc). CHECKs that a stage has one chunk.
PipelineOrder WithWeights(const PipelineOrder& in_turn, int delay);

// Returns the order of a stage. CHECKs that there is one of the name schedule.pipeline, and that it
// is folded only if the schedule weaves.
PipelineOrder OrderFor(const ScheduleSpec& schedule, const StageOfPipeline& at);

// Returns where a rank is, in a step of this many micro-batches.
StageOfPipeline StageOfRank(const EngineSpec& spec, Rank rank, int micro_batches);

}  // namespace stretto
