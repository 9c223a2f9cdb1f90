// SPDX-License-Identifier: Apache-2.0
#pragma once
// How the residual stream, or its gradient, moves between two stages. Rows are the tokens of a
// micro-batch of all replicas, in the order of the step. Both stages cut them into slices of
// replicas; where the stages differ in replicas, into different ones. The rows that a slice of each
// stage has in common move on their own: a resharding (worker/engine/reshard) from the ranks of a
// replica of one stage to those of one of the other.
//
// Without sequence parallelism, and in a stage of one rank, every rank of a replica holds all rows
// of a slice; otherwise each holds an equal range. Plans and groups must be the same on all ranks,
// also before a job is placed, so they follow from the spec alone: the ranks of a replica of a
// stage are taken for one node, which placement makes true unless it must split them, and the links
// for 10 Gbit/s and 50 microseconds.

#include <cstdint>
#include <string>
#include <vector>

#include "worker/engine/layout/layout.h"
#include "worker/engine/reshard/reshard.h"
#include "worker/engine/spec/spec.h"

namespace stretto {

// Transfers from one stage to another, whose chunks are neighbours.
struct Boundary {
  int from = 0, to = 0;  // stages
  bool wraps = false;    // in the order of data flow, the second chunk is on the lower stage
};

struct ReplicaSlice {
  int replica = 0;  // of the stage
  int slice = 0;
};

// Returns that of forward into a chunk; from and to are equal where nothing is sent.
Boundary BoundaryBefore(const EngineSpec& spec, int chunk);

// The rows that a slice of the sending stage and one of the receiving stage have in common.
struct CommonRows {
  ReplicaSlice from = {}, to = {};
  int64_t begin = 0, end = 0;  // of the micro-batch of all replicas
};
// Returns those of the replica at `place`, which is in one of the two stages, ascending. Both ends
// of a pair of replicas have the same ones in the same order.
std::vector<CommonRows> CommonRowsOf(const EngineSpec& spec, const Boundary& boundary,
                                     const Place& place);

// What the ranks of a stage hold of common rows. The tensor has the common rows alone.
Tiling RowsOf(const EngineSpec& spec, int stage, const ReplicaSlice& of, const CommonRows& rows);

// Returns the plan that moves common rows, in the boxes of RowsOf. In mode send, receiver i gets
// its rows from sender i, modulo the number of senders; a replica that sends to several continues
// with the next sender. In mode gather, ranks that do not divide the rows each get all of them.
Resharding TransferPlan(const EngineSpec& spec, const Boundary& boundary, const CommonRows& rows);

// "pp.0-1" of a rank of stage 0 and the one at the same place in stage 1; of other ranks, those are
// added: "pp.0-1.0-4-5".
std::string GroupNameOf(const EngineSpec& spec, const Boundary& boundary,
                        const std::vector<Rank>& ranks);

// Returns what a rank sends and receives, but for the ranks at the other ends. Ranks of a stage
// that have the same text have programs that differ in ranks and offsets alone and, with ZeRO, in
// the parts that they update. Empty if all ranks of the stage are alike.
std::string TransferKindOf(const EngineSpec& spec, const Place& place);

// Whether the members of a group of a rank have programs alike in this sense, so that their arenas
// are equal and hold its tensors at equal offsets.
bool MembersAreAlike(const EngineSpec& spec, Rank rank, const Group& group);

}  // namespace stretto
