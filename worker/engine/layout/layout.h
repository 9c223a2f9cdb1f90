// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where a rank is in its job. A job is a grid of dp_size replicas of the model, each sharded over
// tp_size ranks; the ranks of a replica are adjacent, so that a replica can be placed whole on a
// node: rank = replica * tp_size + position in the replica.

#include "worker/engine/program/program.h"
#include "worker/engine/spec/spec.h"

namespace stretto {

struct Place {
  int replica = 0;        // below dp_size: which sequences of a step it computes
  GroupRank tp_rank = 0;  // below tp_size: which shard of the model it holds
};
Place PlaceOf(const EngineSpec& spec, Rank rank);

// The groups that a rank communicates in, in the order of their ids in its programs and, for time
// that waits for several, of their priority in the ledger: "tp", the ranks of its replica (always
// there, also if it has one rank); "dp", the ranks that hold the same shard (with several
// replicas).
inline constexpr GroupId kTpGroup = 0;
inline constexpr GroupId kDpGroup = 1;
inline constexpr char kTpGroupName[] = "tp", kDpGroupName[] = "dp";
IdVector<GroupId, Group> GroupsOf(const EngineSpec& spec, Rank rank);

}  // namespace stretto
