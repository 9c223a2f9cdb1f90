// SPDX-License-Identifier: Apache-2.0
#pragma once
// How the residual stream of a row slice, or its gradient, moves between two stages: a resharding
// (worker/engine/reshard) from the ranks of a replica in one stage to those in the other.
//
// Without sequence parallelism, and in a stage of one rank, every rank of a stage holds all rows;
// otherwise each holds an equal range of them. Plans and groups must be the same on all ranks, also
// before a job is placed, so they follow from the spec alone: the ranks of a replica of a stage are
// taken for one node, which placement makes true unless it must split them, and the links for
// 10 Gbit/s and 50 microseconds.

#include <cstdint>
#include <string>
#include <vector>

#include "worker/engine/reshard/reshard.h"
#include "worker/engine/spec/spec.h"

namespace stretto {

// Transfers of a replica from one stage to a neighbour.
struct Boundary {
  int from = 0, to = 0;  // stages
  int replica = 0;
  bool wraps = false;  // between the last stage and the first, where a stage has several chunks
};

// What the ranks of a stage hold of a slice of `rows` tokens.
Tiling RowsOf(const EngineSpec& spec, int stage, int replica, int64_t rows);

// Returns the plan that moves a slice. In mode send, receiver i gets its rows from sender i, modulo
// the number of senders. In mode gather, ranks that do not divide the rows each get all of them.
Resharding TransferPlan(const EngineSpec& spec, const Boundary& boundary, int64_t rows);

// "pp.0-1" of a rank of stage 0 and the one at the same place in stage 1; of other ranks, those are
// added: "pp.0-1.0-4-5".
std::string GroupNameOf(const EngineSpec& spec, const Boundary& boundary,
                        const std::vector<Rank>& ranks);

// Whether all ranks of a replica of a stage send and receive alike, so that their programs differ
// in names of ranks alone.
bool RanksAreAlike(const EngineSpec& spec, int stage);

// Whether the members of a group of a rank have programs alike in this sense, so that their arenas
// are equal and hold its tensors at equal offsets.
bool MembersAreAlike(const EngineSpec& spec, Rank rank, const Group& group);

}  // namespace stretto
